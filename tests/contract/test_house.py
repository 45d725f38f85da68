"""Rules of the house that no linter knows."""

import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "leadline").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_source_file_is_named_by_its_idea_and_asserts_nothing(path):
    vague = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert not vague & {part.removesuffix(".py") for part in path.parts[-3:]}
    assert not re.search(r"^\s*assert\b", path.read_text(), re.M), "a bare assert vanishes under python -O"


def test_continuous_integration_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()


def test_every_dependency_is_pinned_to_one_version():
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+", pin) for pin in pins)
    pinned = {plain(pin.split("==")[0]) for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert {plain(re.match(r"[\w-]+", line).group()) for line in wanted} <= pinned
    assert not [name for name in pinned if name.startswith(("nvidia", "cuda", "triton"))]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()
