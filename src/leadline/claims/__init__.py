"""The literature's claims as runs with a verdict: `leadline claims`."""

from __future__ import annotations

from leadline.claims import approximation, hopfield, intervals, perceptron, regions  # noqa: F401 - they enter claims
from leadline.claims.claim import CLAIMS, Check, Claim, Evidence, Outcome

__all__ = ["CLAIMS", "Check", "Claim", "Evidence", "Outcome"]
