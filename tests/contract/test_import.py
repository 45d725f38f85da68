"""`import leadline` needs torch, numpy and safetensors, and loads nothing else that is heavy."""

import json
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CORE = ("torch", "numpy", "safetensors")
HEAVY = ("polars", "narwhals", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "rich", "PIL", "mnist1d")

# Blocked modules look as if they were not installed, also to code that asks before it imports.
BLOCK = """
import json, sys
blocked = set(json.loads(sys.argv[1]))
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in blocked else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
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


def beyond_the_core():
    """Every installed module that is neither ours nor of the core."""
    core = core_distributions()
    return {
        module
        for module, distributions in packages_distributions().items()
        if module != "leadline" and not {canonicalize_name(name) for name in distributions} & core
    }


def test_the_core_is_enough_to_import():
    blocked = beyond_the_core()
    assert {"polars", "matplotlib", "sklearn", "narwhals", "rich"} <= blocked
    assert not {"torch", "numpy", "safetensors", "typing_extensions"} & blocked
    done = run("import polars", blocked)
    assert "No module named 'polars'" in done.stderr, "the hook does not block"
    done = run("import leadline, leadline.testing; print('imported')", blocked)
    assert done.stdout.strip() == "imported", done.stderr


TRAIN = """
import torch
import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.target import Target

torch.set_num_threads(1)
x = torch.randn(60, 3)
split = Split(x, (x[:, 0] > 0).long())
data = Data(split, split, split, Target("classes", classes=("no", "yes")))
run = ll.fit(ll.models.MLP(3, (8,), 2), data, epochs=20, compile="off", threads=1, progress=False)
print(sorted(run.evaluate("test")), tuple(run.predict(x[:2]).mode.shape))
"""


def test_the_core_is_enough_to_train_evaluate_and_predict():
    done = run(TRAIN, beyond_the_core())
    assert done.stdout.strip() == "['accuracy', 'nll'] (2,)", done.stderr


def test_nothing_heavy_is_loaded():
    done = run(f"import leadline; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize(("before", "frozen"), [("", True), ("import torch", False)])
def test_what_it_imports_is_set_aside_from_collection_in_a_process_of_its_own(before, frozen):
    """But not where the caller was there first: garbage of his would never be found."""
    code = f"{before}\nimport gc, leadline\nleadline.fit\nprint(gc.get_freeze_count() > 1000, gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(frozen), "True"]
