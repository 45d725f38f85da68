"""`leadline train --folds 10`: the same model on every fold, as one population; what is told and kept of it."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

from leadline.cli.line import Line
from leadline.cli.recipe import Made
from leadline.cli.screen import Screen, figure, finite
from leadline.cli.usual import read_by
from leadline.data.account import counted
from leadline.errors import RunError, UserError
from leadline.settings import whole


def check(line: Line, what: str) -> None:
    """Refuse what folds cannot have, before data are read."""
    whole("folds", line.get("folds"), 2, usual=10)
    check_rows(line, what)
    if ("verb", "report") in line.values and line.get("report"):
        raise UserError(
            "a report is about one run, and folds are several",
            got="--report beside --folds",
            do="Leave one of them out",
        )
    if line.get("rule") is not None:
        raise UserError(
            "folds need a model that learns by gradient descent",
            got=f"--rule {line.get('rule')}",
            do="Leave one of them out",
        )


def check_rows(line: Line, what: str) -> None:
    """Refuse text: its tokenizer, which the training part makes, would have seen what a fold holds out."""
    if line.get("folds") and read_by(what, line.of("data")) == "text":
        raise UserError(
            "folds need a table or pictures",
            got=f"--folds {line.get('folds')} on {what}, which is text",
            do="Leave it out: a part of the text is held out for validation and test anyway",
        )


def run(made: Made, line: Line, folder: Path, screen: Screen) -> int:
    """Cross-validate, tell, and keep the scores, the figure and what was predicted for each row."""
    import leadline as ll

    if made.rule is not None:
        raise UserError(
            "folds need a model that learns by gradient descent",
            got=f"{type(made.model).__name__}, which learns by {type(made.rule).__name__}",
            do="Add --optimizer adamw, or leave --folds out",
        )
    if folder.exists() and any(folder.iterdir()):
        raise RunError("the folder must be new or empty", got=str(folder), do="Name another with --folder")
    scores = ll.cross_validate(
        made.model, made.data, line.get("folds"), likelihood=made.likelihood, progress="running", **made.settings
    )
    kept = keep(scores, folder)
    screen.say()
    rows: list[list[Any]] = []
    for name in scores:
        low, high = scores.interval(name)
        rows.append([name, figure(scores[name]), figure(scores.std(name)), f"{figure(low)} … {figure(high)}"])
        rows[-1].append(figure(scores.pooled[name]) if name in scores.pooled else "")
        rows[-1].append(figure(scores.ensemble[name]) if scores.ensemble and name in scores.ensemble else "")
    header = ["metric", "mean", "deviation", "95 % of the mean", "all rows", "ensemble"]
    screen.table(header if scores.ensemble else header[:-1], rows if scores.ensemble else [row[:-1] for row in rows])
    screen.say()
    cut = counted(scores.num, "fold")
    screen.say(
        f"{cut}, {scores.population.seconds:.1f} s. Mean and deviation are over the folds, each on its held-out rows; "
        "the interval takes into account that folds share training rows. All rows: each row is predicted by the model "
        "that was not trained on it."
    )
    if scores.ensemble:
        test = counted(len(made.data.test), "row")
        screen.say(f"Ensemble: the mean of the {scores.num} predictions on the {test} that are in no fold.")
    for reason, count in scores.population.reasons.items():
        if reason == "diverged":
            screen.say(f"{count} of {cut} diverged: try a lower --lr.")
    screen.say(f"kept in {shlex.quote(str(folder))}: {', '.join(kept)} (not the networks)")
    screen.answer({"folder": folder, **scores.to_dict()})
    return 0


def keep(scores: Any, folder: Path) -> list[str]:
    """Write the scores, the figure and the predictions; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(finite(scores.to_dict()), ensure_ascii=False, indent=1)
    (folder / "cross-validation.json").write_text(text + "\n", encoding="utf-8")
    scores.plot().savefig(folder / "cross-validation.png")
    columns = scores.out_of_fold()
    target = scores.population[0].target
    with (folder / "out-of-fold.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        names = target.names if columns["y"].ndim > 1 else ("",)
        titled = lambda what: [f"{what} {name}".strip() for name in names]  # noqa: E731
        out.writerow(["row", "fold", *titled("y"), *titled("predicted")])
        for k in columns["row"].argsort(kind="stable").tolist():
            cells = []
            for what in ("y", "predicted"):
                value = columns[what][k]
                if target.discrete and columns[what].ndim == 1:
                    cells.append(target.classes[int(value)])
                else:
                    cells += [f"{float(number):.7g}" for number in (value if columns[what].ndim > 1 else [value])]
            out.writerow([columns["row"][k], columns["fold"][k], *cells])
    return ["cross-validation.json", "cross-validation.png", "out-of-fold.csv"]
