"""Instruments for any module: numbers first, then a drawing. They leave the module bit for bit as it was.

    joints, regions, cells, patterns    linear regions of piecewise linear networks: on a line, on a plane, in a box
    loss_surface, loss_slice, Path      the loss over the weights, and the way that a run took
    curve, boundary                     answers over one feature or two: bands, probabilities, boundaries, surfaces
    density, simplex                    predicted distributions of rows; three class probabilities as a triangle
    criterion, criteria                 what a likelihood asks of an output; fits by squares and by likelihood
    panels, folding                     inside a network: lines clipped and summed; the input folded
    family, activations                 one network for several parameters; activations and their slopes
    superposition                       is a function linear, affine or neither?
    distance                            how far two networks are apart as functions
    flow                                a network as a graph and as equations

Each returns a `View`: a frozen record with `plot()`, which makes a matplotlib figure, and `to_dict()`, plain JSON.
"""

from leadline.lens.activations import Activations, activations
from leadline.lens.boundary import Boundary, boundary
from leadline.lens.cells import Cells, cells
from leadline.lens.class_curve import ClassCurve
from leadline.lens.criteria import Criteria, criteria
from leadline.lens.criterion import Criterion, criterion
from leadline.lens.curve import Curve, curve
from leadline.lens.density import Density, density
from leadline.lens.distance import Distance, distance
from leadline.lens.family import Family, family
from leadline.lens.flow import Flow, flow
from leadline.lens.folding import Folding, folding
from leadline.lens.joints import Joints, describe, joints
from leadline.lens.panels import Panels, panels
from leadline.lens.regions import Regions, patterns, regions
from leadline.lens.simplex import Simplex, simplex
from leadline.lens.superposition import Superposition, superposition
from leadline.lens.surface import Path, Slice, Surface, flat, loss_slice, loss_surface
from leadline.lens.view import View

__all__ = [
    "Activations",
    "Boundary",
    "Cells",
    "ClassCurve",
    "Criteria",
    "Criterion",
    "Curve",
    "Density",
    "Distance",
    "Family",
    "Flow",
    "Folding",
    "Joints",
    "Panels",
    "Path",
    "Regions",
    "Simplex",
    "Slice",
    "Superposition",
    "Surface",
    "View",
    "activations",
    "boundary",
    "cells",
    "criteria",
    "criterion",
    "curve",
    "density",
    "describe",
    "distance",
    "family",
    "flat",
    "flow",
    "folding",
    "joints",
    "loss_slice",
    "loss_surface",
    "panels",
    "patterns",
    "regions",
    "simplex",
    "superposition",
]
