"""The page stands alone, obeys nothing that a user wrote, says the numbers it was given, and never fails to appear."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest
import torch
from trained_runs import class_data, real_data, split_up, train

from leadline.data.columns import Column, TableInputs
from leadline.data.data import Data, Split
from leadline.data.target import KINDS, SPATIAL, WORDED, Target
from leadline.doctor.finding import Finding
from leadline.engine.evaluation import evaluate
from leadline.errors import UserError
from leadline.likelihoods import (
    DEFAULTS,
    LIKELIHOODS,
    Bernoulli,
    Categorical,
    Likelihood,
    Normal,
    Prediction,
    likelihood_for,
)
from leadline.report import Facts, figures
from leadline.report.page import page

VOID = {"meta", "link", "img", "br", "hr", "input"}
EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)> & $a_b$ {0}'


class Reader(HTMLParser):
    """Tags with their attributes, visible text, and a complaint at each tag that does not close."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words, self.open, self.unclosed, self.skip = [], [], [], [], 0
        self.feed(html)
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unclosed.append(tag)

    def handle_data(self, text):
        if not {"style", "script"} & set(self.open[-1:]):
            self.words.append(text)

    @property
    def sections(self):
        return [attributes["id"] for tag, attributes in self.tags if tag == "section"]


@pytest.fixture(autouse=True)
def no_pixels(monkeypatch):
    """The PNG beside the page is test_report_file's: drawing everything twice would double the time of this file."""
    monkeypatch.setattr(figures, "png", lambda figure: b"")


made = cache(page)  # facts are told apart by identity


def read(facts):
    reader = Reader(made(facts).html)
    assert not reader.unclosed and not reader.open
    return reader


@pytest.fixture(scope="module")
def classes():
    return train(class_data())


@pytest.fixture(scope="module")
def real():
    return train(real_data(), Normal.for_target(real_data().target, variance="input"))


@pytest.mark.parametrize("name", ["classes", "real"])
def test_nothing_is_fetched(name, request):
    html = made(request.getfixturevalue(name)).html
    assert "http://" not in html and "https://" not in html and "@import" not in html and "//cdn" not in html
    for tag, attributes in Reader(html).tags:
        for key in ("src", "href", "xlink:href", "srcset", "data", "action"):
            assert attributes.get(key, "#").startswith(("#", "data:")), (tag, attributes)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", html))
    assert "default-src 'none'" in html


def test_ids_are_unique(classes):
    ids = [attributes["id"] for _, attributes in read(classes).tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 20


def test_references_inside_figures_resolve(real):
    html = made(real).html
    ids = set(re.findall(r'\sid="([^"]*)"', html))
    asked = set(re.findall(r'(?:href="#|url\(#)([^")]*)', html))
    assert len(asked) > 5 and asked <= ids


def test_headline_tells_the_numbers_of_the_test_split(classes):
    test, text = classes.evaluations["test"], read(classes).text
    low, high = (min(max(end, 0), 1) for end in test.interval("accuracy"))
    assert f"{100 * test['accuracy']:.1f} %" in text
    assert f"95 % interval {100 * low:.1f} to {100 * high:.1f} %" in text
    assert f"{test['nll']:.4f}" in text or f"{test['nll']:.3f}" in text
    for told in ("MLP on shapes", "276 parameters", "train 200 · val 50 · test 60", "best 4", "calm-otter"):
        assert told in text, told


def test_a_long_name_of_a_model_may_go_on_below(classes):
    config = {**classes.config, "model": {"name": "EncoderDecoder"}}
    assert '<div class="value">Encoder<wbr>Decoder</div>' in page(replace(classes, config=config)).html


def test_sections_of_classes(classes):
    reader = read(classes)
    assert reader.sections == ["metrics", "learning", "results", "doctor", "data", "repeat", "config"]
    assert sorted(made(classes).figures) == ["confusion", "learning", "reliability"]
    for told in ("Class by class", "Most common mistakes", "Worst mistakes", "Nothing found.", "class-3"):
        assert told in reader.text
    assert classes.command in reader.text and "ll.fit(model, data)" in reader.text


def test_sections_of_real(real):
    assert sorted(made(real).figures) == ["coverage", "learning", "predicted", "residuals"]
    text = read(real).text
    assert "90 % interval" in text and "speed" in text and "Class by class" not in text
    assert "always answering the training mean" in text


def test_what_is_not_there_is_left_out(classes):
    bare = replace(
        classes, history=[], evaluations={}, outputs={}, config={}, command="", python="", account="", best_epoch=None
    )
    assert read(bare).sections == ["doctor"]
    assert made(bare).figures == {}


def test_worst_mistakes_are_the_rows_of_highest_loss(classes):
    output, split = classes.outputs["test"], classes.data.test
    order = classes.likelihood.loss(output, split.y).argsort(descending=True)[:8]
    rows = re.findall(r"<tr><td>(\d{4})</td>", made(classes).html)
    assert [int(row) for row in rows] == split.rows[order].tolist()


def test_a_nameless_row_is_a_line_and_a_named_one_its_values(classes, real):
    assert made(classes).html.count("<polyline") == 8
    html = made(real).html
    assert "<polyline" not in html and html.count("speed&nbsp;<b>") == 8


def test_a_row_of_a_table_is_told_as_its_source_wrote_it():
    data = class_data(num_classes=2, dim=5)
    columns = (
        Column("colour", "category", levels=("blue", "<red>")),
        Column("smokes", "flag"),
        Column("since", "date"),
        Column("weight", "number"),
        Column("age", "number"),
    )
    x = torch.tensor([1.0, 0.0, 20089.0, float("nan"), 41.5]).repeat(60, 1)
    facts = train(data)
    table = data.with_(test=Split(x, data.test.y, rows=data.test.rows), inputs=TableInputs(columns))
    html = made(replace(facts, data=table)).html
    assert "colour&nbsp;<b>&lt;red&gt;</b>" in html and "smokes&nbsp;<b>no</b>" in html
    assert "since&nbsp;<b>2025-01-01</b>" in html and "weight&nbsp;<b>missing</b>" in html
    assert "age&nbsp;<b>41.50</b>" in html


def test_images_are_shown_as_images():
    data = class_data(dim=36)
    facts = train(data)
    for shape, shown in (((6, 6), 8), ((1, 6, 6), 8), ((4, 3, 3), 0)):
        pictures = data.with_(test=Split(data.test.x.reshape(-1, *shape), data.test.y))
        assert made(replace(facts, data=pictures)).html.count("<img ") == shown


def test_no_word_of_a_user_is_obeyed():
    names = [EVIL.format(k) for k in range(4)]
    finding = Finding("code", "warning", EVIL, EVIL, EVIL, EVIL)
    facts = train(class_data(classes=names, dim=3, names=names[:3]))
    facts = replace(
        facts,
        title=EVIL,
        config={**facts.config, EVIL: {EVIL: [EVIL, {EVIL: EVIL}]}, "device": EVIL, "name": EVIL, "ended": EVIL},
        findings=[finding, replace(finding, severity=EVIL)],
        command=EVIL,
        python=EVIL,
        account=EVIL,
    )
    reader = read(facts)
    assert [tag for tag, _ in reader.tags].count("script") == 1
    assert not any(key.startswith("on") for _, attributes in reader.tags for key in attributes)
    assert not any(attributes.get("src") == "x" for _, attributes in reader.tags)
    assert reader.text.count('alert("x")') > 30  # all of it is there to read
    real = real_data()
    evil = real.with_(target=replace(real.target, name=EVIL))
    assert [tag for tag, _ in read(train(evil)).tags].count("script") == 1


def test_odd_names():
    names = ("漢字 and 🦦", "a\nb\tc\x00", "\ud800", "", " ", "x" * 500, "$\\frac{1}{0}$", "--> ]]>")
    made(train(class_data(num_classes=8, classes=names))).html.encode("utf-8")
    real = real_data(sizes=(50, 0, 9))
    for name in (names[0] + names[2], names[6]):
        made(train(real.with_(target=replace(real.target, name=name)))).html.encode("utf-8")


def test_findings_are_told_worst_first(classes):
    note = Finding("n", "note", "few rows", "class 7", "3 of 900", "Collect more")
    error = Finding("e", "error", "labels are shuffled", "split test", "accuracy 0.1", "Check the file")
    reader = read(replace(classes, findings=[note, error]))
    assert "Nothing found" not in reader.text
    assert reader.text.index("Labels are shuffled") < reader.text.index("Few rows")
    assert "1 error" in reader.text and "1 note" in reader.text and "Collect more" in reader.text


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(lambda: train(class_data(sizes=(200, 0, 60))), id="no val"),
        pytest.param(lambda: train(class_data(sizes=(200, 50, 5))), id="five rows"),
        pytest.param(lambda: train(class_data(sizes=(200, 50, 1))), id="one row"),
        pytest.param(lambda: train(real_data(sizes=(200, 50, 1))), id="one real row"),
        pytest.param(lambda: train(class_data(sizes=(200, 0, 0))), id="train alone"),
        pytest.param(lambda: train(class_data(), epochs=1), id="one epoch"),
        pytest.param(lambda: train(real_data(sizes=(200, 0, 5)), epochs=1), id="real, one epoch, no val"),
        pytest.param(lambda: train(class_data(num_classes=100, sizes=(400, 50, 300))), id="100 classes"),
        pytest.param(lambda: train(real_data(dim=6)), id="6 outputs"),
    ],
)
def test_shapes_of_runs(facts):
    facts = facts()
    reader = read(facts)
    assert "results" in reader.sections and "learning" in reader.sections
    few = facts.evaluations[facts.split].count < 30
    assert ("this figure is only a rough estimate" in reader.text) == few


def test_the_best_split_there_is():
    assert "on the val split" in read(train(class_data(sizes=(200, 50, 0)))).text
    assert "the rows it was trained on" in read(train(class_data(sizes=(200, 0, 0)))).text


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (class_data(), slice(None)),
        (class_data(num_classes=2), slice(0, 3)),
        (real_data(), slice(None)),
        (real_data(dim=2), slice(0, 3)),
    ],
)
def test_a_run_that_diverged_has_a_page(data, rows):
    facts = train(data)
    output = facts.outputs["test"].clone()
    output[rows] = float("nan")
    history = [*facts.history, {"epoch": 5, "step": 5, "lr": None, "train": {"loss": float("nan")}, "val": None}]
    evaluations = {**facts.evaluations, "test": evaluate(facts.likelihood, output, data.test.y)}
    assert (
        "results" in read(replace(facts, outputs={"test": output}, evaluations=evaluations, history=history)).sections
    )


def test_low_precision_outputs(classes):
    half = replace(classes, outputs={name: output.bfloat16() for name, output in classes.outputs.items()})
    assert "Worst mistakes" in read(half).text


CLASSES = {"binary": ("no", "yes"), "classes": ("a", "b", "c"), "ordered": ("a", "b", "c")}
#: measures in place of a density have nothing to draw y from
NO_DENSITY = {name for name, family in LIKELIHOODS.items() if not family.has_density}
#: answers that have places in a picture or a text are no rows of numbers
PLACED = {name for name, family in LIKELIHOODS.items() if family.kinds[0] in (*SPATIAL, *WORDED)}


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name not in NO_DENSITY | PLACED])
def test_every_registered_likelihood(name):
    """On the first kind of target that it is made for, or takes: y is drawn from the likelihood itself."""
    made_for = [kind for kind, default in DEFAULTS.items() if default == name]
    two = {"dim": 2, "shift": (0.0, 0.0), "scale": (1.0, 1.0)}
    targets = [Target(kind, classes=CLASSES.get(kind, ())) for kind in [*made_for, *KINDS] if kind in KINDS]
    targets += [Target("real", **two), Target("ranking", dim=3)]
    for target in [Target.of(Target("angle", "a"), Target("count", "b"))] if name == "Joint" else targets:
        try:
            likelihood = likelihood_for(target, name)
            output, y = drawn(likelihood, target)
            likelihood.check(y)
        except UserError:
            continue
        assert "Worst mistakes" in read(told(likelihood, target, output, y)).text
        return
    pytest.fail(f"no kind of target suits {name}")


@pytest.mark.parametrize("name", sorted(NO_DENSITY - PLACED))
def test_a_loss_without_a_density_has_a_page(name):
    generator = torch.Generator().manual_seed(0)
    for kind in ("classes", "binary", "real"):
        target = Target(kind, classes=CLASSES.get(kind, ()))
        try:
            likelihood = likelihood_for(target, name)
        except UserError:
            continue
        output = torch.randn(90, likelihood.dim_output, generator=generator)
        y = torch.randint(len(target.classes), (90,), generator=generator) if target.discrete else torch.randn(90)
        assert "Worst mistakes" in read(told(likelihood, target, output, y)).text
        return
    pytest.fail(f"no target suits {name}")


@pytest.mark.parametrize(
    ("likelihood", "kind"), [(Bernoulli(), "ranking"), (Categorical(3), "real"), (Normal(), "classes")]
)
def test_a_likelihood_that_does_not_go_with_the_target(likelihood, kind):
    target = Target(kind, classes=("a", "b", "c") if kind == "classes" else ())
    output, y = drawn(likelihood, target)
    assert "losses" in made(told(likelihood, target, output, y)).figures


def drawn(likelihood, target, rows=90):
    output = torch.randn(rows, likelihood.dim_output, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = likelihood.prediction(output).sample(1, seed=0)[0]
    return output, y.long().clamp(0, 2) if target.discrete else y


def told(likelihood, target, output, y):
    """Facts of the last 30 rows, without a model."""
    data = Data(*split_up(torch.randn(len(y), 3), y, (50, 10, 30)), target)
    evaluation = evaluate(likelihood, output[60:], y[60:])
    return Facts("told", {}, [], None, {"test": evaluation}, data, likelihood, {"test": output[60:]})


class Surprise(Likelihood):
    """A family that the page has never heard of, which knows no interval and not even a mean."""

    dim_output = 1

    def distribution(self, output):
        return torch.distributions.Cauchy(output.squeeze(-1), 1.0)

    def loss(self, output, y):
        return -self.distribution(output).log_prob(y)

    def measures(self, output, y):
        return {"nll": self.loss(output, y), "strange": y.abs()}

    def prediction(self, output):
        return SurprisePrediction(self.distribution(output))

    def check(self, y):
        pass


class SurprisePrediction(Prediction):
    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        return self.distribution.loc

    def quantile(self, q):
        raise NotImplementedError


def test_a_likelihood_that_nobody_foresaw():
    facts = train(real_data(), Surprise())
    assert "losses" in made(facts).figures
    assert "strange" in read(facts).text and "Worst mistakes" in read(facts).text


def test_a_binary_target_has_the_sections_of_classes():
    assert sorted(made(train(class_data(num_classes=2))).figures) == ["confusion", "learning", "reliability"]


def test_the_page_stays_small():
    facts = train(real_data(dim=4, sizes=(200, 50, 5000)))
    finished = made(facts)
    assert len(finished.html.encode()) < 1_000_000
    assert "225 of 5 000 rows are drawn" in Reader(finished.html).text


def test_the_same_facts_give_the_same_page(classes):
    assert page(classes).html == made(classes).html
