"""Instruments for any module: numbers first, then a drawing. They leave the module bit for bit as it was.

    joints, regions, cells, patterns    linear regions of piecewise linear networks: on a line, on a plane, in a box
    loss_surface, loss_slice, Path      the loss over the weights, and the way that a run took
    boundary                            answers over two features: decision boundary, predicted surface
    panels                              inside a shallow network: lines, clipped, weighted, summed
    distance                            how far two networks are apart as functions
    flow                                a network as a graph and as equations

Each returns a `View`: a frozen record with `plot()`, which makes a matplotlib figure, and `to_dict()`, plain JSON.
"""

from leadline.lens.boundary import Boundary, boundary
from leadline.lens.cells import Cells, cells
from leadline.lens.distance import Distance, distance
from leadline.lens.flow import Flow, flow
from leadline.lens.joints import Joints, describe, joints
from leadline.lens.panels import Panels, panels
from leadline.lens.regions import Regions, patterns, regions
from leadline.lens.surface import Path, Slice, Surface, flat, loss_slice, loss_surface
from leadline.lens.view import View

__all__ = [
    "Boundary",
    "Cells",
    "Distance",
    "Flow",
    "Joints",
    "Panels",
    "Path",
    "Regions",
    "Slice",
    "Surface",
    "View",
    "boundary",
    "cells",
    "describe",
    "distance",
    "flat",
    "flow",
    "joints",
    "loss_slice",
    "loss_surface",
    "panels",
    "patterns",
    "regions",
]
