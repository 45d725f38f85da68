"""`import leadline` needs torch, numpy and safetensors, and loads nothing else that is heavy."""

import json
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CORE = ("torch", "numpy", "safetensors")
HEAVY = ("polars", "narwhals", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "rich", "tyro", "PIL", "mnist1d")

BLOCK = """
import importlib.abc, json, sys
blocked = set(json.loads(sys.argv[1]))
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def core_distributions():
    """The core and what it requires itself."""
    found, waiting = set(), list(CORE)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        found.add(name)
        for line in requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def run(code, blocked=()):
    command = [sys.executable, "-c", BLOCK + code, json.dumps(sorted(blocked))]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_core_is_enough():
    core = core_distributions()
    ours = {"leadline"}
    blocked = {
        module
        for module, distributions in packages_distributions().items()
        if module not in ours and not {canonicalize_name(name) for name in distributions} & core
    }
    assert {"polars", "matplotlib", "sklearn", "tyro", "rich"} <= blocked
    assert not {"torch", "numpy", "safetensors", "typing_extensions"} & blocked
    done = run("import polars", blocked)
    assert "No module named 'polars'" in done.stderr, "the hook does not block"
    done = run("import leadline, leadline.testing; print('imported')", blocked)
    assert done.stdout.strip() == "imported", done.stderr


def test_nothing_heavy_is_loaded():
    done = run(f"import leadline; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
