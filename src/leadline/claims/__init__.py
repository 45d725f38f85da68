"""The literature's claims as runs with a verdict: `leadline claims`."""

from __future__ import annotations

from leadline.claims import (  # noqa: F401 - they enter claims
    activations,
    approximation,
    convolution,
    curvature,
    depth,
    derivatives,
    descent,
    first_weights,
    flows,
    hopfield,
    interpolation,
    intervals,
    lines,
    logistic,
    losses,
    measuring,
    minima,
    normalising,
    perceptron,
    pieces,
    polynomials,
    rates,
    regions,
    regularising,
    residual,
    residual_depth,
    shrinkage,
    sliding,
    surfaces,
    very_deep,
)
from leadline.claims.claim import CLAIMS, Check, Claim, Evidence, Outcome

__all__ = ["CLAIMS", "Check", "Claim", "Evidence", "Outcome"]
