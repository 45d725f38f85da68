"""The page, the list of codes and the code that speaks them agree."""

import ast
import re
from pathlib import Path

import leadline.doctor
from leadline.doctor import CODES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "doctor.md").read_text()


def spoken():
    """First arguments of Finding(…) in the sources, and the codes that reach it by name."""
    codes = set()
    for path in Path(leadline.doctor.__file__).parent.glob("*.py"):
        if path.name not in ("codes.py", "finding.py"):
            tree = ast.parse(path.read_text())
            codes |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in CODES}
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and node.args:
                    first = node.args[0]
                    assert not isinstance(first, ast.Constant) or first.value in CODES, first.value
    return codes


def test_every_code_is_spoken_and_every_spoken_code_is_listed():
    assert spoken() == set(CODES)


def test_the_page_explains_every_code_and_no_other_in_order():
    assert re.findall(r"^### `([a-z-]+)`", PAGE, re.M) == list(CODES)


def test_each_entry_says_meaning_evidence_and_remedy():
    for entry in re.split(r"^### ", PAGE, flags=re.M)[1:]:
        code = entry.split("`")[1]
        assert CODES[code] in entry.lower().replace("\n", " "), code
        assert re.search(r"^Evidence: .+", entry, re.M) and re.search(r"^Remedy: .+", entry, re.M), code
        assert re.search(r"\((error|warning|note)(, (warning|note))*\)", entry.splitlines()[0]), code
