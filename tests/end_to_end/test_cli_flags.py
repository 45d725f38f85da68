"""The verbs and flags there are. Adding one is a decision: it changes this file."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from leadline.cli import VERBS, main
from leadline.cli.flag import Flag, Kind, argument_docs, flags_of, kind_of
from leadline.cli.line import first_word, parse, peek
from leadline.data import SOURCES
from leadline.errors import UserError
from leadline.layers.activation import ACTIVATIONS
from leadline.models import MODELS

SETTINGS = (
    "--accumulate --average --batch --carry-state --clip --compile --decay-on --device --epoch-steps --epochs --init "
    "--init-scale --lr --momentum --optimizer --patience --precision --recompute --regularize --replacement --schedule "
    "--seed --threads --validate-every --warmup --weight-decay"
)
MLP = "--activation --hidden --norm --p-drop --residual"
TABLE = (
    "--bad-rows --categories --drop --group --kind --log --missing --order --split-seed --target --test --test-path "
    "--time --val --weight"
)
PICTURES = (
    "--task --labels --masks --boxes --target --classes --size --colour --fit --val --test --data-seed --split "
    "--workers --cache"
)
GRAPH = (
    "--edges --target --level --key --ends --directed --weight --relation --node-kind --graph --graphs --features "
    "--kind --order --drop --categories --log --bad-edges --batches --inductive --val --test --split --split-seed "
    "--negatives"
)
CONV_NET = "--widths --depth --kernel --norm --p-drop"
FAMILIES = (
    "--variance --sigma --label-smoothing --coldness --edge --kappa --form --families --weighting --dice --num-boxes "
    "--coordinate --no-object --bump --longest"
)
RUN = f"--model --likelihood {FAMILIES} --rule --from --lora --folder --report --folds"
SEARCH = (
    f"--model --likelihood {FAMILIES} --space --trials --method --folds --together --storage --search-seed --folder"
)
FROZEN = {
    "train": f"{RUN} {MLP} {SETTINGS}",
    "train cars.csv": f"{RUN} {MLP} {SETTINGS} {TABLE}",
    "train xor --model Linear": f"{RUN} {SETTINGS} --num --noise --data-seed --val --test",
    "search": f"{SEARCH} {MLP} {SETTINGS}",
    "search cars.csv": f"{SEARCH} {MLP} {SETTINGS} {TABLE}",
    "resume": "--data --report",
    "evaluate": "--split --data --edges",
    "predict": "--edges --output --interval",
    "show data nodes.csv --edges edges.csv": GRAPH,
    "train xor --model Linear --rule Newton": f"{RUN} {SETTINGS} --ridge --tolerance --num --noise --data-seed --val "
    "--test",
    "train xor --model Perceptron": f"{RUN} {SETTINGS} --bias --keep --num --noise --data-seed --val --test",
    "train xor --model Perceptron --optimizer sgd": f"{RUN} {SETTINGS} --bias --num --noise --data-seed --val --test",
    "train xor --likelihood Normal": "--model --likelihood --variance --sigma --rule --from --lora --folder --report "
    f"--folds {MLP} {SETTINGS} --num --noise --data-seed --val --test",
    "doctor": f"--model --likelihood {FAMILIES} {MLP}",
    "doctor cars.csv": f"--model --likelihood {FAMILIES} {MLP} {TABLE}",
    "show": "",
    "show model": f"--dim-input --dim-output --data {MLP}",
    "show model MLP --data cars.csv": f"--dim-input --dim-output --data {MLP} {TABLE}",
    "show data cars.csv": TABLE,
    "show data images": PICTURES,
    "train images": f"{RUN} {CONV_NET} {SETTINGS} {PICTURES}",
    "show loop": "",
    "show run": "",
    "generate": "--prompt --prompt-file --lines --most --temperature --top-k --top-p --min-p --repetition --beams "
    "--groups --diversity --allowed --stop --seed --count --slide",
    "list": "--folder",
    "replay": "--step",
    "claims": "--all --full --folder --log",
    "syllabus": "--all",
}


def flags_after(line):
    verb, *argv = line.split()
    module = __import__(f"leadline.cli.{verb}", fromlist=["flags"])
    return [flag.name for flag in module.flags(argv)]


def test_the_verbs():
    assert list(VERBS) == [
        "train",
        "search",
        "resume",
        "evaluate",
        "predict",
        "generate",
        "doctor",
        "show",
        "list",
        "claims",
        "syllabus",
        "replay",
    ]


@pytest.mark.parametrize("line", FROZEN)
def test_the_flags(line):
    found = flags_after(line)
    assert len(found) == len(set(found))
    assert set(found) == set(FROZEN[line].split())


def pairs(*sources):
    """Every model with two sources or more, and every source with two models."""
    models, count = list(MODELS), max(len(sources), len(MODELS))
    steps = [(k, k + step) for step in (0, 1) for k in range(count)]
    return list(dict.fromkeys((sources[j % len(sources)], models[k % len(models)]) for k, j in steps))


def test_every_model_and_every_source_is_among_the_pairs_twice():
    counts = Counter(name for pair in pairs(*SOURCES) for name in pair)
    assert set(counts) == {*SOURCES, *MODELS} and min(counts.values()) >= 2


@pytest.mark.parametrize(("source", "model"), pairs(*SOURCES))
def test_no_flag_has_two_meanings(source, model):
    found = flags_after(f"train {source} --model {model}")
    assert len(found) == len(set(found))


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_examples_and_every_flag_in_80_columns(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([verb, "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("usage: leadline ") and page.count(f"\n  leadline {verb}") in range(2, 7)
    for flag in (*flags_after(verb), "--json", "--help"):
        assert flag in page or flag.replace("--", "--[no-]") in page
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("line", ["", "--help", "-h", "help"])
def test_the_overview_names_every_verb(line, capsys):
    assert main(line.split()) == 0
    page = capsys.readouterr().out
    assert all(f"\n  {verb} " in page for verb in VERBS)
    assert max(map(len, page.splitlines())) <= 80


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("leadline 0.")


def example(num: int, ratio: float | None = None, names: "list[str]" = (), exact: bool = False, **more):  # type: ignore[assignment]
    """Args:
    num: how many.
    ratio, names: of the
        rest.
    """


def test_flags_follow_a_signature():
    num, ratio, names, exact = flags_of(example, "data", group="g", taken={"num"})
    assert [flag.name for flag in (num, ratio, names, exact)] == ["--data-num", "--ratio", "--names", "--exact"]
    assert num.help == "how many" and ratio.help == names.help == "of the rest"
    assert ratio.kind == Kind((float,), optional=True) and names.kind == Kind((str,), many=True) and exact.kind.switch


@pytest.mark.parametrize(
    ("annotation", "words", "value"),
    [
        (int, ["3"], 3),
        (float, ["1e-3"], 1e-3),
        (int | float, ["3"], 3),
        (int | float, ["3.5"], 3.5),
        (float | None, ["None"], None),
        (str | None, ["none"], None),
        (tuple[int, ...], ["1", "2"], (1, 2)),
        (tuple[int, ...], ["1,2"], (1, 2)),
        (tuple[int, ...], ["none"], ()),
        (list[str], ["a,b"], ("a", "b")),
        (list[str], ["a,b", "c"], ("a,b", "c")),
        (str | list[str], ["a", "b"], ("a", "b")),
        (dict[str, int], ["a=1", "b=2"], {"a": 1, "b": 2}),
        (bool | None, ["yes"], True),
        (inspect.Parameter.empty, ["x"], "x"),
    ],
)
def test_words_become_values(annotation, words, value):
    assert Flag("option", kind_of(annotation)).read(words) == value


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, ["x"]),
        (int, []),
        (float, ["1,5"]),
        (dict[str, int], ["a"]),
        (dict[str, int], ["a=x"]),
        (bool | None, ["si"]),
    ],
)
def test_words_that_do_not_fit_are_refused(kind, words):
    with pytest.raises(UserError, match="--option must"):
        Flag("option", kind_of(kind)).read(words)


def test_a_line_is_read_in_any_order():
    flags = [Flag("num", Kind((int,))), Flag("names", Kind(many=True)), Flag("exact", Kind((bool,)))]
    line = parse("verb", ["--names", "a", "b", "--num=-3", "--no-exact", "word", "--names", "c", "--json"], flags)
    assert line.words == ("word",)
    assert line.of("verb") == {"num": -3, "names": ("a", "b", "c"), "exact": False}
    assert parse("verb", ["--num", "-3", "--", "--word"], flags).words == ("--word",)


def test_peeking():
    flags = [Flag("names", Kind(many=True)), Flag("exact", Kind((bool,)))]
    assert first_word(["--exact", "--names", "a", "b", "--num", "3", "word"], flags) == "word"
    assert first_word(["--json", "--num=3", "word"], flags) == "word"
    assert first_word(["--names", "a", "b"], flags) is None
    assert peek(["a", "--model", "B"], "--model") == peek(["--model=B"], "--model") == "B"
    assert peek(["a", "--model", "--b"], "--model") is None


def test_arguments_are_read_from_a_docstring():
    assert argument_docs("Nothing here.") == {}
    assert argument_docs("Args:\n    a: one.\n\n>>> b: two") == {"a": "one"}


@pytest.mark.parametrize(("source", "model"), pairs("cars.csv", *SOURCES))
def test_every_flag_of_train_says_what_it_means_and_what_its_default_is(source, model, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["train", source, "--model", model, "--help"]) == 0
    page = capsys.readouterr().out
    entries = re.split(r"\n(?=  --)", page.partition("\nwhat is trained:")[2])[1:]
    for entry in entries:
        flag, told = re.match(r"(?s)\s*--(?:\[no-])?([\w-]+)(?: [A-Z]+(?: …)?)?\s+(.*)", entry).groups()
        told = " ".join(told.split("\n\n")[0].split())
        if flag not in ("json", "help"):
            assert "default" in told or flag == "target", entry
            assert len(re.sub(r"\(default.*", "", told).strip()) > 5, entry
        assert "leadline." not in told.replace("report.html", ""), entry
        assert not re.search(r"(?<!\w)\(\d+\)|eq\.|<=|\[0, 1\)", told), entry


def test_names_are_listed_where_python_has_a_constant(capsys):
    assert main(["train", "moons", "--help"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert all(name in page.partition("--activation")[2].partition("--norm")[0] for name in ACTIVATIONS)


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("--num 3 --num 4", "--num twice"),
        ("--num=3 --num 3", "--num twice"),
        ("--exact --no-exact", "both --exact and --no-exact"),
        ("--exact --exact", "--exact twice"),
    ],
)
def test_a_flag_given_twice_is_refused(line, got):
    flags = [Flag("num", Kind((int,))), Flag("exact", Kind((bool,)))]
    with pytest.raises(UserError, match=f"must be given once. Got {got}"):
        parse("verb", line.split(), flags)


def test_an_option_of_the_data_never_takes_the_name_of_a_flag(monkeypatch):
    def source(*, folder: str = "", seed: int = 0, norm: str = "", own: int = 1):
        """Options that a verb, a setting and a model have too."""

    monkeypatch.setitem(SOURCES, "colliding", source)
    found = [name for name in flags_after("train colliding") if name.startswith("--data-") or name == "--own"]
    assert found == ["--data-folder", "--data-seed", "--data-norm", "--own"]


def test_the_page_names_only_flags_that_there_are():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page))
    lines = [*FROZEN, "train mnist1d", "train moons", "train book.txt", "doctor moons", "show data moons"]
    there = {"--json", "--help"} | {spelling for line in lines for spelling in spellings_after(line)}
    assert named - there == set()
    assert {"--split", "--data", "--interval", "--output", "--likelihood"} <= named


def spellings_after(line):
    verb, *argv = line.split()
    module = __import__(f"leadline.cli.{verb}", fromlist=["flags"])
    return [spelling for flag in module.flags(argv) for spelling in flag.spellings]
