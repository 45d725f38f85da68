"""The page: sections in the order in which a reader asks. What does not apply is left out.

Nothing on it is fetched, and a policy in its head forbids that: the only script is the one below, known by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leadline.data.series_windows import Windows
from leadline.engine.forecast_scores import OF_A_STEP
from leadline.report import figures
from leadline.report.facts import Facts
from leadline.report.forecasts import Headline
from leadline.report.graphs import graph_of
from leadline.report.results import Draw, colour_of, results
from leadline.report.style import CSS
from leadline.report.verdict import verdict
from leadline.report.words import count, duration, escape, metric, metric_range, number, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCRIPT = """
for (const button of document.querySelectorAll(".copy button")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
"""
MARK = (
    '<svg viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" '
    'aria-hidden="true"><path d="M9 1v9"/><path d="M9 10l2.4 5.2a1 1 0 0 1-.9 1.4H7.5a1 1 0 0 1-.9-1.4z" '
    'fill="currentColor"/><path d="M1.5 6.2c1.6-1.2 2.9-1.2 4.2 0M12.3 6.2c1.3-1.2 2.6-1.2 4.2 0"/></svg>'
)
SEVERITIES = ("error", "warning", "note")
LONG = 24  # items of a list that are written out


@dataclass(frozen=True)
class Page:
    """The HTML, and each figure's PNG by name."""

    html: str
    figures: dict[str, bytes]


def page(facts: Facts) -> Page:
    """Lay out the whole page."""
    pictures: dict[str, bytes] = {}

    def draw(name: str, figure: Figure, caption: str, full: bool = False) -> str:
        pictures[name] = figures.png(figure)
        return (
            f'<figure{" class=full" if full else ""}><div class="plate">{figures.svg(figure, name)}</div>'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )

    parts: list[tuple[str, str, Callable[[Facts, Draw], str]]] = [
        ("metrics", "Metrics", _metrics),
        ("learning", "Learning", _learning),
        ("results", "Right and wrong", _results),
        ("doctor", "Doctor", _doctor),
        ("data", "Data", _account),
        ("repeat", "Repeat it", _repeat),
        ("config", "Configuration", _config),
    ]
    sections = [(key, title, body) for key, title, section in parts if (body := section(facts, draw))]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in sections)
    bodies = "".join(f'<section id="{key}"><h2>{title}</h2>{body}</section>' for key, title, body in sections)
    inner = f"{_headline(facts)}{bodies}{_footer(facts)}"
    return Page(_frame(facts.title, links, inner), pictures)


def _frame(title: str, links: str, inner: str) -> str:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:,"><title>{escape(title)} · Leadline</title><style>{CSS}</style></head>\n<body>'
        f'<div class="wrap"><header class="brand">{MARK}<span>Leadline</span><nav>{links}</nav></header>\n{inner}</div>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _headline(facts: Facts) -> str:
    split = facts.split
    score = sentence = ""
    if split is not None:
        name, evaluation = facts.headline(split), facts.evaluations[split]
        value, beside = metric(name, evaluation[name]), metric_range(name, evaluation.interval(name))
        name, beside, said = f"{name} on the {split} split", f"95 % interval {beside}", verdict(facts, split)
        if isinstance(facts.data.inputs, Windows):
            top = Headline.of(facts, split)
            name, value, beside, said = top.name, top.value, top.beside, escape(top.sentence)
        score = (
            f'<div class="card score" style="{colour_of(split)}"><div class="name"><span class="dot">'
            f'</span>{escape(name)}</div><div class="value">{value}</div><div class="soft">{beside}</div></div>'
        )
        sentence = f'<p class="verdict">{said}</p>'
    tiles = "".join(
        f'<div class="tile"><div class="name">{escape(name)}</div><div class="value">{_parted(value)}</div>'
        f'<div class="more">{escape(more)}</div></div>'
        for name, value, more in _tiles(facts)
    )
    return (
        f"<h1>{escape(facts.title)}</h1>{_subtitle(facts)}"
        f'<div class="hero{"" if score else " alone"}">{score}<div class="card"><div class="tiles">{tiles}</div>'
        f"{sentence}</div></div>"
    )


def _parted(name: str) -> str:
    """A name that may go on in a second line before a capital: EncoderDecoder is wider than its tile."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "<wbr>", escape(name))


def _subtitle(facts: Facts) -> str:
    name, created = (facts.config.get(key) for key in ("name", "created"))
    told = [name] if isinstance(name, str) and name != facts.title else []
    if isinstance(created, str):
        told.append(created.replace("T", " "))
    chips = "".join(
        f' <a class="chip" style="--of:var(--{severity})" href="#doctor">{count(found, severity)}</a>'
        for severity in SEVERITIES
        if (found := sum(finding.severity == severity for finding in facts.findings))
    )
    return f'<div class="soft">{escape(" · ".join(told))}{chips}</div>' if told or chips else ""


def _tiles(facts: Facts) -> list[tuple[str, str, str]]:
    sizes = [(name, len(split)) for name, split in facts.data.splits()]
    tiles = [
        ("rows", number(sum(size for _, size in sizes)), " · ".join(f"{name} {number(size)}" for name, size in sizes))
    ]
    model = facts.config.get("model")
    if isinstance(model, dict) and "name" in model:
        parameters = model.get("parameters")
        tiles.append(
            ("model", str(model["name"]), count(parameters, "parameter") if isinstance(parameters, int) else "")
        )
    if facts.history:
        best = f"best {facts.best_epoch}" if facts.best_epoch is not None else ""
        ended = facts.config.get("ended")
        reason = ended.get("reason") if isinstance(ended, dict) else ended
        more = [best, reason if isinstance(reason, str) else ""]
        tiles.append(("epochs", number(facts.history[-1]["epoch"]), ", ".join(text for text in more if text)))
    device = facts.config.get("device")
    tiles.append(("time", duration(facts.seconds), f"on {device}" if isinstance(device, str) else ""))
    return tiles


def _metrics(facts: Facts, draw: Draw) -> str:
    splits = [name for name in ("train", "val", "test") if name in facts.evaluations]
    if not splits:
        return ""
    names = list(dict.fromkeys(name for split in splits for name in facts.evaluations[split].main))
    note = "Weighted by row; below each figure its 95 % confidence interval, the rows taken as a sample."
    if isinstance(facts.data.inputs, Windows):
        names = [name for name in names if not OF_A_STEP.search(name)]
        note += (
            " These figures are of the network alone, in the unit in which it learns; those of its forecasts follow."
        )
    rows = []
    for split in splits:
        evaluation = facts.evaluations[split]
        cells = [f'<span class="dot" style="{colour_of(split)}"></span>{split}', number(evaluation.count)]
        for name in names:
            if name in evaluation:
                span = metric_range(name, evaluation.interval(name))
                cells.append(f'{metric(name, evaluation[name])}<span class="range">{span}</span>')
            else:
                cells.append("")
        rows.append(cells)
    return f'<div class="card">{table(["split", "rows", *names], rows)}<p class="soft small below">{note}</p></div>'


def _learning(facts: Facts, draw: Draw) -> str:
    if not facts.history:
        return ""
    target = facts.data.target
    per = "member" if target.overlap else "token" if target.kind == "tokens" else "row"
    figure = figures.learning(facts.history, facts.best_epoch, facts.likelihood.headline, per)
    kept = f" The weights of epoch {facts.best_epoch} were kept." if facts.best_epoch is not None else ""
    told = "Training loss and validation nll, sample-weighted means over each epoch."
    if not any(line.get("val") for line in facts.history):
        told = "Training loss, the sample-weighted mean over each epoch; there was no validation."
    return f'<div class="card">{draw("learning", figure, told + kept, full=True)}</div>'


def _results(facts: Facts, draw: Draw) -> str:
    if facts.split is None:
        return ""
    return graph_of(facts, facts.split, draw) + results(facts, facts.split, draw)


def _doctor(facts: Facts, draw: Draw) -> str:
    if not facts.findings:
        dot = '<span class="dot" style="--of:var(--test)"></span>'
        return f'<div class="card">{dot}Nothing found.</div>'
    rank = {severity: place for place, severity in enumerate(SEVERITIES)}
    ranked = sorted(facts.findings, key=lambda f: rank.get(f.severity, len(rank)))
    items = "".join(
        f'<div class="finding"><span class="chip" style="--of:var(--{f.severity if f.severity in rank else "soft"})">'
        f"{escape(f.severity)}</span>"
        f'<div><strong>{escape(f.what[:1].upper() + f.what[1:])}</strong> <span class="soft">· {escape(f.where)}</span>'
        f'<p class="soft">{escape(f.evidence)}</p><p>{escape(f.remedy)}</p></div></div>'
        for f in ranked
    )
    return f'<div class="card">{items}</div>'


def _account(facts: Facts, draw: Draw) -> str:
    return f'<div class="card"><pre>{escape(facts.account)}</pre></div>' if facts.account else ""


def _repeat(facts: Facts, draw: Draw) -> str:
    blocks = "".join(
        f'<h3>{title}</h3><div class="copy"><pre>{escape(text)}</pre><button type="button" hidden>Copy</button></div>'
        for title, text in (("In a shell", facts.command), ("In Python", facts.python))
        if text
    )
    return f'<div class="card">{blocks}</div>' if blocks else ""


def _config(facts: Facts, draw: Draw) -> str:
    """Plain entries first, then one fold an entry that holds others."""
    if not facts.config:
        return ""
    flat = {key: value for key, value in facts.config.items() if not isinstance(value, dict)}
    folds = "".join(
        f'<details><summary>{escape(key)}</summary><div class="body">{_tree(value)}</div></details>'
        for key, value in [("run", flat), *facts.config.items()]
        if isinstance(value, dict) and value
    )
    return f'<div class="card">{folds}</div>'


def _tree(value: Any) -> str:
    if isinstance(value, dict):
        rows = "".join(f"<tr><td>{escape(key)}</td><td>{_tree(item)}</td></tr>" for key, item in value.items())
        return f'<table class="config">{rows}</table>' if value else '<span class="soft">none</span>'
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, dict) for item in value):
            return "".join(_tree(item) for item in value[:LONG])
        shown = ", ".join(_leaf(item) for item in value[:LONG])
        more = f' <span class="soft">and {number(len(value) - LONG)} more</span>' if len(value) > LONG else ""
        return (shown or '<span class="soft">empty</span>') + more
    return _leaf(value)


def _leaf(value: Any) -> str:
    if value is None:
        return '<span class="soft">none</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(value)


def _footer(facts: Facts) -> str:
    versions, data = facts.config.get("versions"), facts.config.get("data")
    told = ["This page stands alone: nothing on it is fetched."]
    if isinstance(versions, dict):
        told.append(" · ".join(f"{key} {versions[key]}" for key in ("leadline", "torch", "python") if key in versions))
    if isinstance(data, dict) and "fingerprint" in data:
        told.append(f"data fingerprint {str(data['fingerprint'])[:12]}")
    return f"<footer>{escape('  ·  '.join(text for text in told if text))}</footer>"
