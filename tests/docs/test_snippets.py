"""What the pages show is what happens: every snippet of README.md and docs/ runs here.

A ```python block runs in its page's namespace, top to bottom. In a ```console block each line that starts with "$ "
runs and must exit with 0, or with 2 where the block is opened as ```console exit=2. A line that is `leadline` and plain
words, or `python -c`, runs in this process, which spares the start of another: that the program on the PATH is the same
one is shown in tests/end_to_end/test_cli_process.py. All others run in a shell. Each page has a folder of its own, in
which files that one snippet leaves are there for the next.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    language: str
    options: tuple[str, ...]
    body: str
    line: int

    @property
    def exit_code(self) -> int:
        return next((int(option.removeprefix("exit=")) for option in self.options if option.startswith("exit=")), 0)

    @property
    def commands(self) -> list[str]:
        joined = self.body.replace("\\\n", " ")
        return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


def blocks(text: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(text):
        language, *options = match["info"].split() or [""]
        found.append(Block(language, tuple(options), match["body"], text[: match.start("body")].count("\n") + 1))
    return found


def own_table(path: Path) -> None:
    """The table of their own that a reader of the pages is taken to have."""
    rows = [f"{age},{(age * 7919) % 150_000},{30_000 - 1_500 * age + (age * 37) % 900}" for age in range(1, 16)] * 8
    path.write_text("age,mileage,price\n" + "\n".join(f"{row[:-1]}{k % 10}" for k, row in enumerate(rows)) + "\n")


def run_page(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the page's blocks in `folder`; the number of snippets and commands that ran."""
    monkeypatch.chdir(folder)
    own_table(folder / "cars.csv")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"])
    namespace: dict[str, object] = {"__name__": "__page__"}
    ran = 0
    for block in blocks(path.read_text()):
        if block.language == "python":
            # as many empty lines as stand before it, so that a traceback names the line of the page
            code = "\n" * (block.line - 1) + block.body
            exec(compile(code, str(path), "exec"), namespace)
            ran += 1
        elif block.language == "console":
            for command in block.commands:
                code, said = run_command(command)
                assert code == block.exit_code, f"exit code {code}\n{path.name}:{block.line}: $ {command}\n{said}"
                ran += 1
    return ran


def run_command(command: str) -> tuple[int, str]:
    """The exit code of a line, and what it said where that is not captured anyway."""
    words = shlex.split(command, comments=True)
    if words[0] == "leadline" and not set(shlex.join(words).replace("'", "")) & set("|<>;&$`*"):
        return main(words[1:]), ""
    if words[:2] == ["python", "-c"] and len(words) == 3:
        exec(words[2], {"__name__": "__main__"})
        return 0, ""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=280)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_does_what_it_shows(path, tmp_path, monkeypatch):
    run_page(path, tmp_path, monkeypatch)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_tree_of_the_readme_is_the_tree_of_the_source():
    text = (ROOT / "README.md").read_text()
    tree = next((block.body for block in blocks(text) if "src/leadline/" in block.body), None)
    assert tree is not None, "README.md shows no tree of src/leadline/"
    shown = shown_places(tree)
    source = ROOT / "src" / "leadline"
    folders = {f"{path.name}/" for path in source.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert {name for name in shown if name.endswith("/")} == folders
    for name in shown:
        assert (source / name).exists(), f"README.md shows {name}, which does not exist"


def shown_places(tree: str) -> list[str]:
    """Names of one further indent under the line src/leadline/."""
    lines = tree.splitlines()
    start = next(k for k, line in enumerate(lines) if line.strip().startswith("src/leadline/"))
    depth = len(lines[start]) - len(lines[start].lstrip())
    places, inner = [], None
    for line in lines[start + 1 :]:
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent <= depth:
            break
        inner = indent if inner is None else inner
        name = line.split()[0]
        if indent == inner and re.fullmatch(r"\w+(/|\.py)", name):
            places.append(name)
    return places


# ── the tests of these tests ──


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


def test_a_page_is_read_as_written(tmp_path, monkeypatch):
    text = (
        "```python\nx = 1\n```\n\n```text\nnot run\n```\n\n```python\nassert x == 1\n```\n"
        "```console\n$ true\nout\n$ test -n a \\\n  -a -n b\n```\n"
    )
    assert run_page(page(tmp_path, text), tmp_path, monkeypatch) == 4


@pytest.mark.parametrize(
    "text",
    [
        "```python\nraise AssertionError\n```\n",
        "```console\n$ exit 3\n```\n",
        "```console exit=2\n$ true\n```\n",
        "```console\n$ true\n$ leadline-that-does-not-exist\n```\n",
    ],
)
def test_a_page_that_is_wrong_is_caught(text, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        run_page(page(tmp_path, text), tmp_path, monkeypatch)


def test_an_expected_exit_code_is_accepted(tmp_path, monkeypatch):
    assert run_page(page(tmp_path, "```console exit=2\n$ exit 2\n```\n"), tmp_path, monkeypatch) == 1


def test_the_tree_is_read_at_one_depth():
    tree = "src/leadline/\n  data/    rows,\n           more words/\n  verbs.py  fit\ntests/   x\n"
    assert shown_places(tree) == ["data/", "verbs.py"]
