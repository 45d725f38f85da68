"""The literature's claims as runs with a verdict: `leadline claims`."""

from __future__ import annotations

from leadline.claims import (  # noqa: F401 - they enter claims
    activations,
    approximation,
    attention,
    convolution,
    curvature,
    decoding,
    depth,
    derivatives,
    descent,
    first_weights,
    flows,
    hopfield,
    inside_language,
    interpolation,
    intervals,
    linear_attention,
    lines,
    logistic,
    losses,
    measuring,
    minima,
    normalising,
    perceptron,
    pieces,
    polynomials,
    positions,
    rates,
    regions,
    regularising,
    residual,
    residual_depth,
    seeing,
    shrinkage,
    sizes_of_transformers,
    sliding,
    surfaces,
    tokens,
    transformer_depth,
    very_deep,
    vision_transformers,
)
from leadline.claims.claim import CLAIMS, Check, Claim, Evidence, Outcome

__all__ = ["CLAIMS", "Check", "Claim", "Evidence", "Outcome"]
