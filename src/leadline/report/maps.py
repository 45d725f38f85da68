"""The section of a report that shows masks, boxes or points on pictures: truth above, prediction below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from leadline.report import figures
from leadline.report.facts import Facts
from leadline.report.pictures import drawn, hue
from leadline.report.style import FULL
from leadline.report.words import escape, percent, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from leadline.report.results import Draw

_SHOWN = 6
_NAMES = 24  # classes up to which each has a line


@torch.no_grad()
def maps(facts: Facts, split: str, draw: Draw) -> str:
    """HTML of the section."""
    target, output = facts.data.target, facts.outputs[split][:_SHOWN].float()
    said = facts.likelihood.prediction(output).mode.cpu()
    part = facts.data[split]
    true = [drawn(part.x[k], part.y[k], target.kind, target.classes) for k in range(len(said))]
    found = [drawn(part.x[k], said[k], target.kind, target.classes) for k in range(len(said))]
    sheet = draw(
        "pictures", _sheet([np.asarray(image) for image in true], [np.asarray(image) for image in found]),
        f"The first pictures of the {split} split. Each class has the same colour above and below.", full=True,
    )  # fmt: skip
    cards = [f'<div class="card wide">{sheet}</div>']
    if target.kind == "pixels":
        cards.append(f'<div class="card wide"><h3>Class by class</h3>{_overlaps(facts, split)}</div>')
    return f'<div class="grid">{"".join(cards)}</div>'


@figures.styled
def _sheet(true: list[np.ndarray], found: list[np.ndarray]) -> Figure:
    height = FULL / len(true) * max(image.shape[0] / image.shape[1] for image in true)
    figure = figures.blank(FULL, 2 * height + 0.6)
    axes = figure.subplots(2, len(true), squeeze=False)
    for row, (name, images) in enumerate((("truth", true), ("prediction", found))):
        for ax, image in zip(axes[row], images, strict=True):
            ax.imshow(image, interpolation="nearest")
            ax.set_axis_off()
        axes[row][0].set_title(name)
    return figure


def _overlaps(facts: Facts, split: str) -> str:
    evaluation, names = facts.evaluations[split], facts.data.target.classes
    known = [(code, name) for code, name in enumerate(names) if f"iou_{name}" in evaluation]
    worst = sorted(known, key=lambda pair: evaluation[f"iou_{pair[1]}"])[:_NAMES]
    rows = [
        [
            f'<span style="color:#{bytes(hue(code)).hex()}">■</span> {escape(name)}',
            percent(evaluation[f"iou_{name}"]),
            " to ".join(percent(end) for end in evaluation.interval(f"iou_{name}")),
        ]
        for code, name in worst
    ]
    more = f'<p class="soft small">The {_NAMES} worst of {len(known)} classes.</p>' if len(known) > len(worst) else ""
    return table(["class", "overlap (IoU)", "95 % interval"], rows, texts=1) + more
