"""Instruments for any module: numbers first, then a drawing. They leave the module bit for bit as it was.

    joints, regions, cells, patterns    linear regions of piecewise linear networks: on a line, on a plane, in a box
    rates                               which learning rate, and why, or why none
    loss_surface, loss_slice, Path      the loss over the weights, and the way that a run took
    critical_points, chords             of small models: minima and saddles of the loss; is it convex?
    batch_losses, bracketing, momentum_steps    what a batch sees; a line search; where momentum looks
    implicit, descent_paths, WeightLoss what steps of descent add to the loss, beside the flow that they follow
    hessian, sharpness                  how the loss curves, and what shaking the weights does to it
    connect, averaging                  between two minima: barriers, bent paths, averaged weights
    gradient_noise, UpdateRatios        how much batches differ, and how far a step moves each layer
    confidence, calibration             how sure a network grows, and whether it may be
    lipschitz, rademacher, vc_dimension, effective_capacity    how fast it can change, and how much it can hold
    curve, boundary                     answers over one feature or two: bands, probabilities, boundaries, surfaces
    density, simplex                    predicted distributions of rows; three class probabilities as a triangle
    criterion, criteria                 what a likelihood asks of an output; fits by squares and by likelihood
    panels, folding                     inside a network: lines clipped and summed; the input folded
    family, activations                 one network for several parameters; activations and their slopes
    superposition                       is a function linear, affine or neither?
    distance                            how far two networks are apart as functions
    flow                                a network as a graph and as equations
    derivative_graph, memory            derivatives on a graph, step by step; bytes kept for the backward pass
    beliefs, geometry                   a posterior's mean, band and draws; what high dimensions are like
    depth, shattered                    signal and gradient through depth, layer by layer; how soon a gradient forgets
    receptive_field                     which inputs a unit can see, and which it does
    filters, feature_maps, tied         kernels, what they find in a row, and a convolution as a matrix of tied weights
    saliency, occlusion                 how much each input, or each hidden patch, moves the answer
    class_activation, dissection        where a class is found; which units find which things
    activation_maximum, inversion       the input that excites a unit most; an input found again from a layer
    equivariance, shift_consistency     does a function move with its input, or stay?
    checkerboard, artefacts             how evenly a transposed convolution writes to its outputs
    position_similarity                 how alike the learned vectors of places are, along a row and on a grid
    position_vectors                    what tells a transformer where a token stands, as a picture; its products
    path_gradients, path_terms, deletion    paths through a residual network, and what is lost without a block
    vocabulary                          tokens of byte pair encoding, merge by merge
    attention_map, attention_rank       which tokens look at which, in every head; how many directions that has
    alignment                           what each written word came from, of a decoder that reads a source
    head_entropy, head_ablation         how widely, how far and where heads look; what is lost without them
    logit_lens, next_token              what would be said after each layer; the distribution of the next token
    token_attribution                   which tokens an answer comes from
    interaction, reach, measured_reach  patterns of who may look at whom; how far a token gets through layers
    embedding_neighbours                which tokens lie beside each other
    attention_gradients                 gradients of queries, keys and values; what branches add to the stream
    fading, gates                       how far back a recurrent layer is felt; what its gates keep, write and show
    critical_set                        which points of a cloud decide what a network of maxima says of it
    state_spectrum, unit_responses      eigenvalues of a recurrence, directions of its state; what a unit responds to

Each returns a `View`: a frozen record with `plot()`, which makes a matplotlib figure, and `to_dict()`, plain JSON.
"""

from leadline.lens.activation_maximum import ActivationMaximum, activation_maximum
from leadline.lens.activations import Activations, activations
from leadline.lens.alignment import Alignment, alignment
from leadline.lens.attention_gradients import AttentionGradients, attention_gradients
from leadline.lens.attention_map import AttentionMap, attention_map
from leadline.lens.attention_rank import AttentionRank, attention_rank
from leadline.lens.batch_losses import BatchLosses, batch_losses
from leadline.lens.boundary import Boundary, boundary
from leadline.lens.bracketing import Bracketing, bracketing
from leadline.lens.calibration import Coverage, Reliability, calibration
from leadline.lens.capacity import Rademacher, Shattering, effective_capacity, rademacher, vc_dimension
from leadline.lens.cells import Cells, cells
from leadline.lens.checkerboard import Artefacts, Checkerboard, artefacts, checkerboard
from leadline.lens.chords import Chords, chords
from leadline.lens.class_activation import ClassActivation, class_activation
from leadline.lens.class_curve import ClassCurve
from leadline.lens.confidence import Confidence, confidence
from leadline.lens.connection import Averaging, Connection, averaging, connect
from leadline.lens.criteria import Criteria, criteria
from leadline.lens.criterion import Criterion, criterion
from leadline.lens.critical import CriticalPoints, critical_points
from leadline.lens.critical_set import CriticalSet, critical_set
from leadline.lens.curve import Curve, curve
from leadline.lens.deletion import Deletion, deletion
from leadline.lens.density import Density, density
from leadline.lens.depth import Depth, depth
from leadline.lens.derivative_graph import DerivativeGraph, derivative_graph
from leadline.lens.dissection import Dissection, dissection
from leadline.lens.distance import Distance, distance
from leadline.lens.edge_attention import EdgeAttention, Mixings, edge_attention, mixings
from leadline.lens.embedding_neighbours import EmbeddingNeighbours, embedding_neighbours
from leadline.lens.equivariance import Equivariance, equivariance
from leadline.lens.fading import Fading, fading
from leadline.lens.family import Family, family
from leadline.lens.filters import FeatureMaps, Filters, feature_maps, filters
from leadline.lens.flow import Flow, flow
from leadline.lens.folding import Folding, folding
from leadline.lens.gates import Gate, Gates, gates
from leadline.lens.geometry import Geometry, geometry
from leadline.lens.gradient_noise import GradientNoise, gradient_noise
from leadline.lens.graph_drawing import GraphDrawing, graph_drawing, graph_part
from leadline.lens.graph_matrices import EdgeGraph, GraphMatrices, edge_graph, graph_matrices
from leadline.lens.graph_parts import GraphParts, graph_parts
from leadline.lens.graph_spectrum import GraphSpectrum, graph_spectrum
from leadline.lens.graph_walks import HopReach, Walks, graph_walks, hop_reach
from leadline.lens.head_ablation import HeadAblation, head_ablation
from leadline.lens.head_entropy import HeadEntropy, head_entropy
from leadline.lens.hessian import Hessian, hessian
from leadline.lens.implicit import DescentPaths, Implicit, descent_paths, implicit
from leadline.lens.interaction import Interaction, Reach, interaction, measured_reach, reach
from leadline.lens.inversion import Inversion, inversion
from leadline.lens.joints import Joints, describe, joints
from leadline.lens.lipschitz import Lipschitz, lipschitz
from leadline.lens.logit_lens import LogitLens, logit_lens
from leadline.lens.memory import Memory, memory
from leadline.lens.momentum import MomentumSteps, momentum_steps
from leadline.lens.neighbourhoods import Neighbourhoods, neighbourhoods
from leadline.lens.next_token import NextToken, next_token
from leadline.lens.node_colours import NodeColours, node_colours
from leadline.lens.node_influence import NodeInfluence, node_influence
from leadline.lens.node_order import NodeOrder, node_order
from leadline.lens.occlusion import Occlusion, occlusion
from leadline.lens.over_smoothing import OverSmoothing, over_smoothing
from leadline.lens.over_squashing import OverSquashing, over_squashing
from leadline.lens.panels import Panels, panels
from leadline.lens.path import Path, flat
from leadline.lens.paths import PathGradients, path_counts, path_gradients, path_terms
from leadline.lens.position_similarity import PositionSimilarity, position_similarity
from leadline.lens.position_vectors import PositionVectors, position_vectors
from leadline.lens.posterior import Beliefs, beliefs
from leadline.lens.rates import Rates, rates
from leadline.lens.receptive_field import ReceptiveField, receptive_field
from leadline.lens.regions import Regions, patterns, regions
from leadline.lens.saliency import Saliency, saliency
from leadline.lens.sharpness import Sharpness, sharpness
from leadline.lens.shattered import Shattered, shattered
from leadline.lens.shift_consistency import ShiftConsistency, shift_consistency
from leadline.lens.simplex import Simplex, simplex
from leadline.lens.skips import residual_blocks
from leadline.lens.state_spectrum import LayerSpectrum, StateSpectrum, state_spectrum
from leadline.lens.superposition import Superposition, superposition
from leadline.lens.surface import Slice, Surface, loss_slice, loss_surface
from leadline.lens.tied import Tied, tied
from leadline.lens.token_attribution import TokenAttribution, token_attribution
from leadline.lens.unit_responses import Stretch, UnitResponses, unit_responses
from leadline.lens.updates import UpdateRatios, Updates
from leadline.lens.view import View
from leadline.lens.vocabulary import Vocabulary, vocabulary
from leadline.lens.weight_loss import WeightLoss

__all__ = [
    "EdgeAttention",
    "Mixings",
    "edge_attention",
    "mixings",
    "GraphDrawing",
    "graph_drawing",
    "graph_part",
    "EdgeGraph",
    "GraphMatrices",
    "edge_graph",
    "graph_matrices",
    "GraphParts",
    "graph_parts",
    "GraphSpectrum",
    "graph_spectrum",
    "HopReach",
    "Walks",
    "graph_walks",
    "hop_reach",
    "Neighbourhoods",
    "neighbourhoods",
    "NodeColours",
    "node_colours",
    "NodeInfluence",
    "node_influence",
    "NodeOrder",
    "node_order",
    "OverSmoothing",
    "over_smoothing",
    "OverSquashing",
    "over_squashing",
    "Fading",
    "fading",
    "Gate",
    "Gates",
    "gates",
    "LayerSpectrum",
    "StateSpectrum",
    "state_spectrum",
    "Stretch",
    "UnitResponses",
    "unit_responses",
    "AttentionGradients",
    "attention_gradients",
    "AttentionMap",
    "attention_map",
    "AttentionRank",
    "attention_rank",
    "EmbeddingNeighbours",
    "embedding_neighbours",
    "HeadAblation",
    "head_ablation",
    "HeadEntropy",
    "head_entropy",
    "Interaction",
    "Reach",
    "interaction",
    "measured_reach",
    "reach",
    "LogitLens",
    "logit_lens",
    "NextToken",
    "next_token",
    "TokenAttribution",
    "token_attribution",
    "ActivationMaximum",
    "Activations",
    "Alignment",
    "Artefacts",
    "Averaging",
    "BatchLosses",
    "Beliefs",
    "Boundary",
    "Bracketing",
    "Cells",
    "Checkerboard",
    "Chords",
    "ClassActivation",
    "ClassCurve",
    "Confidence",
    "Connection",
    "Coverage",
    "Criteria",
    "Criterion",
    "CriticalPoints",
    "CriticalSet",
    "Curve",
    "Deletion",
    "Density",
    "Depth",
    "DerivativeGraph",
    "DescentPaths",
    "Dissection",
    "Distance",
    "Equivariance",
    "Family",
    "FeatureMaps",
    "Filters",
    "Flow",
    "Folding",
    "Geometry",
    "GradientNoise",
    "Hessian",
    "Implicit",
    "Inversion",
    "Joints",
    "Lipschitz",
    "Memory",
    "MomentumSteps",
    "Occlusion",
    "Panels",
    "Path",
    "PathGradients",
    "PositionSimilarity",
    "PositionVectors",
    "Rademacher",
    "Rates",
    "ReceptiveField",
    "Regions",
    "Reliability",
    "Saliency",
    "Sharpness",
    "Shattered",
    "Shattering",
    "ShiftConsistency",
    "Simplex",
    "Slice",
    "Superposition",
    "Surface",
    "Tied",
    "UpdateRatios",
    "Updates",
    "View",
    "Vocabulary",
    "WeightLoss",
    "activation_maximum",
    "activations",
    "alignment",
    "artefacts",
    "averaging",
    "batch_losses",
    "beliefs",
    "boundary",
    "bracketing",
    "calibration",
    "cells",
    "checkerboard",
    "chords",
    "class_activation",
    "confidence",
    "connect",
    "criteria",
    "criterion",
    "critical_points",
    "critical_set",
    "curve",
    "deletion",
    "density",
    "depth",
    "derivative_graph",
    "descent_paths",
    "describe",
    "dissection",
    "distance",
    "effective_capacity",
    "equivariance",
    "family",
    "feature_maps",
    "filters",
    "flat",
    "flow",
    "folding",
    "geometry",
    "gradient_noise",
    "hessian",
    "implicit",
    "inversion",
    "joints",
    "lipschitz",
    "loss_slice",
    "loss_surface",
    "memory",
    "momentum_steps",
    "occlusion",
    "panels",
    "path_counts",
    "path_gradients",
    "path_terms",
    "position_similarity",
    "position_vectors",
    "patterns",
    "rademacher",
    "rates",
    "receptive_field",
    "regions",
    "residual_blocks",
    "saliency",
    "sharpness",
    "shattered",
    "shift_consistency",
    "simplex",
    "superposition",
    "tied",
    "vc_dimension",
    "vocabulary",
]
