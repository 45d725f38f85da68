"""Layers that a user may build with are found where layers are looked for."""

import importlib
import inspect

import pytest
from torch import nn

from leadline import layers

FILES = (
    *("feature_norm", "residual_units", "residual_block", "stochastic_depth", "shake", "highway", "ode"),
    *(
        "attention",
        "feed_forward",
        "sublayer",
        "positions",
        "rotary",
        "alibi",
        "relative_buckets",
        "relative_attention",
    ),
    *("placed_attention", "sequence_norm", "additive_attention", "kernel_smoother", "low_rank_attention"),
    *("kernel_attention", "compressed_attention", "hashed_attention", "synthesizer", "dynamic_convolution"),
    *("spatial_gate", "attention_free", "cross_covariance"),
    *("elman", "lstm", "gru", "lecture_lstm", "lecture_gru", "bidirectional", "deep_transition"),
    *("min_gru", "min_lstm", "linear_recurrent_unit"),
    *("graph_convolution", "graph_sage", "graph_attention", "graph_isomorphism", "graph_filters", "message_passing"),
    *("relational", "edge_updates", "fixed_point", "graph_transformer", "graph_norm", "graph_stack", "graph_head"),
    *("held_graph", "node_dropout"),
)
INNER = {"ZeroSkip"}  # a word of `ResidualBlock`


@pytest.mark.parametrize("file", FILES)
def test_public_layers_are_exported(file):
    module = importlib.import_module(f"leadline.layers.{file}")
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    built = {name for name, value in own.items() if inspect.isclass(value) and issubclass(value, nn.Module)}
    assert {name for name in built if name[0] != "_"} - INNER <= set(layers.__all__)
    assert any(getattr(layers, name) is own.get(name) for name in layers.__all__)
