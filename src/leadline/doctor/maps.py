"""After a run on masks, boxes or points: did the network learn them, and does it find them in unseen pictures?"""

from __future__ import annotations

from collections.abc import Mapping

from leadline.doctor.finding import Finding
from leadline.engine.evaluation import Evaluation
from leadline.likelihoods.likelihood import Likelihood

# Of a perfect score, what a network that has learned something has more of on the pictures that it trained on.
LEARNED = 0.05
# A gap between training pictures and others that matters, beyond what their intervals leave open.
GAP = 0.1


def check_maps(evaluations: Mapping[str, Evaluation], likelihood: Likelihood) -> list[Finding]:
    """Args:
    evaluations: split -> metrics; the headline is one from 0 to 1.
    """
    name = likelihood.headline
    train, held = evaluations.get("train"), next((s for s in ("val", "test") if s in evaluations), None)
    if train is None:
        return []
    if train[name] < LEARNED:
        what = "the model has learned almost nothing, even on the pictures it trained on"
        do = "Train for more epochs; then try a learning rate ten times larger and smaller, and a larger model"
        return [Finding("underfitting", "warning", what, "train split", f"{name} {train[name]:.3f}", do)]
    if held is None:
        return []
    low, high = train.interval(name)[0], evaluations[held].interval(name)[1]
    if train[name] - evaluations[held][name] < GAP or not high < low:
        return []
    found = f"{name} {train[name]:.3f} on pictures it trained on, {evaluations[held][name]:.3f} on {held} pictures"
    do = "Add pictures, or vary them: --regularize flip zoom colour; or take a smaller model, or stop earlier"
    return [
        Finding(
            "overfitting",
            "warning",
            "the model overfits: it is much better on the pictures it trained on than on others",
            f"{held} split",
            found,
            do,
        )
    ]
