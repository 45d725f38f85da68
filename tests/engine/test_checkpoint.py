"""Checkpoints: whole or absent, whatever the disk does; and believed only after every byte was checked."""

import errno
import hashlib
import json
import os
import random
import resource
import shutil
import signal
from pathlib import Path

import pytest
import torch
from engine_runs import BreakAt, Breaks, StopAt, hashes, mlp, moons

import leadline as ll
from leadline.engine import checkpoint, files, keeper
from leadline.errors import CheckpointError, RunError


def tensors(value=0.0):
    return {"weights": {"model.w": torch.full((3, 2), value)}, "state": {"rule.0": torch.arange(4.0) + value}}


def saved(folder: Path, *steps: int) -> Path:
    for step in steps:
        checkpoint.save(folder, step, tensors(float(step)), {"epoch": step})
    return checkpoint.steps(folder)[-1]


def test_round_trip(tmp_path):
    path = saved(tmp_path, 3)
    found, plain = checkpoint.load(path)
    assert plain == {"schema": checkpoint.SCHEMA, "step": 3, "epoch": 3}
    assert torch.equal(found["weights"]["model.w"], torch.full((3, 2), 3.0))
    assert torch.equal(found["state"]["rule.0"], torch.arange(4.0) + 3)


def test_views_and_shared_memory_are_saved_by_value(tmp_path):
    base = torch.arange(6.0)
    checkpoint.save(tmp_path, 0, {"weights": {"a": base.view(2, 3).T, "b": base, "c": base[::2]}}, {})
    found, _ = checkpoint.load(tmp_path / "step-0000000000")
    assert torch.equal(found["weights"]["a"], base.view(2, 3).T)
    assert torch.equal(found["weights"]["c"], base[::2])


def test_the_first_and_the_newest_two_are_kept(tmp_path):
    for step in range(0, 70, 10):
        checkpoint.save(tmp_path, step, tensors(), {})
        names = [int(path.name.removeprefix("step-")) for path in checkpoint.steps(tmp_path)]
        assert names == sorted({0, max(step - 10, 0), step})
    assert not list(tmp_path.glob(".tmp*"))


def test_saving_a_step_again_replaces_it(tmp_path):
    saved(tmp_path, 5)
    checkpoint.save(tmp_path, 5, tensors(9.0), {})
    found, _ = checkpoint.load(tmp_path / "step-0000000005")
    assert float(found["weights"]["model.w"][0, 0]) == 9.0


class Fault:
    """Lets `after` operations on the disk pass, then every one fails, as on a full disk or after a kill."""

    def __init__(self, monkeypatch, after, make):
        self.left, self.make, self.count = after, make, 0
        for owner, name in (
            (checkpoint, "write_bytes"),
            (files.os, "fsync"),
            (files.os, "open"),
            (Path, "rename"),
            (Path, "mkdir"),
            (shutil, "rmtree"),
            (os, "unlink"),
            (os, "rmdir"),
        ):
            monkeypatch.setattr(owner, name, self._wrap(getattr(owner, name)))

    def _wrap(self, real):
        def counted(*args, **kwargs):
            self.count += 1
            if self.left <= 0:
                raise self.make()
            self.left -= 1
            return real(*args, **kwargs)

        return counted


class Killed(BaseException):
    """Nothing catches it, as nothing catches kill -9."""


def fails_at(monkeypatch, folder, after, make, step):
    """Save `step` with a fault after `after` operations; whether it got through."""
    with monkeypatch.context() as patch:
        Fault(patch, after, make)
        try:
            checkpoint.save(folder, step, tensors(float(step)), {"epoch": step})
        except (OSError, Killed):
            return False
    return True


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("step", [40, 30])
def test_a_fault_at_any_point_leaves_a_whole_checkpoint(monkeypatch, tmp_path, kill, step):
    """A fault at each operation in turn, while a new step is saved and while the newest is saved again."""
    make = Killed if kill else (lambda: OSError(errno.ENOSPC, "No space left on device"))
    for after in range(60):
        folder = tmp_path / str(after)
        saved(folder, 0, 10, 20, 30)
        through = fails_at(monkeypatch, folder, after, make, step)
        newest = checkpoint.steps(folder)[-1]
        _, plain = checkpoint.load(newest)
        assert plain["step"] in (20, 30, step)  # the newest, or the one before it
        checkpoint.load(folder / "step-0000000000")
        checkpoint.save(folder, 50, tensors(50.0), {})  # space was freed
        assert checkpoint.steps(folder)[0].name == "step-0000000000"
        for path in checkpoint.steps(folder):
            checkpoint.load(path)
        assert not list(folder.glob(".tmp*"))
        if through:
            break
    else:
        pytest.fail("never got through")
    assert after > 8


@pytest.mark.parametrize("kill", [False, True])
def test_saving_the_only_checkpoint_again_never_loses_it(monkeypatch, tmp_path, kill):
    make = Killed if kill else (lambda: OSError(errno.ENOSPC, "No space left on device"))
    for after in range(60):
        folder = tmp_path / str(after)
        saved(folder, 0)
        if fails_at(monkeypatch, folder, after, make, 0):
            break
        checkpoint.sweep(folder)
        checkpoint.load(checkpoint.steps(folder)[-1])


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(keeper, "_LEAST_SECONDS", -1.0)
    monkeypatch.setattr(keeper, "_SHARE", 0.0)


def fit(folder, *listeners, **more):
    return ll.fit(
        mlp(),
        moons(),
        folder=folder,
        epochs=4,
        batch=16,
        progress=False,
        with_report=False,
        listeners=listeners,
        **more,
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_full_disk_stops_the_run_with_a_remedy_and_it_goes_on(often, monkeypatch, tmp_path, number):
    fit(tmp_path / "whole")
    rng = random.Random(number)
    for attempt in range(4):
        folder = tmp_path / f"full-{attempt}"
        writes, limit = 0, rng.randrange(9, 60)
        real = files.write_bytes

        def write(path, content, real=real, limit=limit):
            nonlocal writes
            writes += 1
            if writes > limit:
                with open(path, "wb") as file:
                    file.write(content[: len(content) // 2])
                raise OSError(number, os.strerror(number), str(path))
            real(path, content)

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "write_bytes", write)
            with pytest.raises(RunError) as caught:
                fit(folder)
        message = str(caught.value)
        assert ("Free some space" in message) == (number in (errno.ENOSPC, errno.EDQUOT))
        assert f"leadline resume {folder}" in message and "step-" in message
        assert not list((folder / "checkpoints").glob(".tmp*"))
        ll.resume(folder, progress=False, with_report=False)
        assert hashes(folder) == hashes(tmp_path / "whole")


def fit_in_little_room(folder, told):
    model, data = ll.models.MLP(2, (40, 40), 1), ll.data.moons(num=60)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
    try:
        ll.fit(model, data, folder=folder, epochs=2, progress=False)
    except RunError as error:
        told.write_text(str(error))


def test_disk_full_for_real(tmp_path, forked):
    """The kernel itself refuses: a limit on the size of a file."""
    process = forked(fit_in_little_room, tmp_path / "run", tmp_path / "told.txt")
    process.join(60)
    assert process.exitcode == 0
    told = (tmp_path / "told.txt").read_text()
    assert "the disk must have room for the run" in told and "Free some space" in told


def damage(path: Path, rng: random.Random) -> str:
    """Harm one file of a checkpoint at random; what was done."""
    file = rng.choice(sorted(path.iterdir()))
    content = bytearray(file.read_bytes())
    kind = rng.choice(["truncate", "flip", "append", "remove", "empty", "insert"])
    if kind == "truncate":
        file.write_bytes(content[: rng.randrange(len(content))])
    elif kind == "flip":
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
    elif kind == "append":
        file.write_bytes(bytes(content) + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9))))
    elif kind == "insert":
        content.insert(rng.randrange(len(content)), rng.randrange(256))
        file.write_bytes(content)
    elif kind == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()
    return f"{kind} {file.name}"


def test_damage_is_refused_or_without_effect(tmp_path):
    """400 random injuries: none loads other numbers than were written."""
    whole = saved(tmp_path / "whole", 7)
    good, plain = checkpoint.load(whole)
    rng, refused = random.Random(0), 0
    for case in range(400):
        path = tmp_path / "damaged" / f"step-{case:010d}"
        shutil.copytree(whole, path)
        what = damage(path, rng)
        try:
            found, same_plain = checkpoint.load(path)
        except CheckpointError as error:
            refused += 1
            assert "Got" in str(error)
        else:  # JSON allows white space: an injury of the manifest may change nothing
            assert "manifest.json" in what
            assert same_plain == plain and found.keys() == good.keys()
            for group in good:
                assert all(torch.equal(good[group][name], found[group][name]) for name in good[group])
        shutil.rmtree(path)
    assert refused > 370


def rewrite_manifest(path: Path, change) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["../secret.safetensors", "a/b.safetensors", "/etc/passwd", "..", "."])
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    path = saved(tmp_path, 1)
    secret = (path / "weights.safetensors").read_bytes()  # would load, were it looked at
    (tmp_path / "secret.safetensors").write_bytes(secret)
    entry = {"bytes": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    rewrite_manifest(path, lambda manifest: manifest["files"].update({name: entry}))
    with pytest.raises(CheckpointError, match="leaves the folder" if "/" in name else "must be whole"):
        checkpoint.load(path)


def test_other_schema_is_refused(tmp_path):
    path = saved(tmp_path, 1)
    rewrite_manifest(path, lambda manifest: manifest.update(schema=99))
    with pytest.raises(CheckpointError, match="schema 99.*version of leadline"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    "manifest",
    ["[]", "3", "null", '"x"', "{}", '{"schema": 1}', '{"schema": 1, "files": 3}', '{"schema": 1, "files": {}}'],
)
def test_a_manifest_of_another_form_is_refused(tmp_path, manifest):
    path = saved(tmp_path, 1)
    (path / "manifest.json").write_text(manifest)
    with pytest.raises(CheckpointError):
        checkpoint.load(path)


def test_the_message_names_the_checkpoint_to_fall_back_to(often, tmp_path):
    fit(tmp_path / "whole")
    with pytest.raises(Breaks):
        fit(tmp_path / "run", BreakAt(8))
    newest, before = checkpoint.steps(tmp_path / "run" / "checkpoints")[-1:-3:-1]
    (newest / "weights.safetensors").write_bytes(b"rot")
    with pytest.raises(CheckpointError, match=f"Remove .*{newest.name} to continue from {before.name}"):
        ll.resume(tmp_path / "run", progress=False)
    shutil.rmtree(newest)
    ll.resume(tmp_path / "run", progress=False, with_report=False)
    assert hashes(tmp_path / "run") == hashes(tmp_path / "whole")


def test_another_model_is_refused_by_the_name_of_a_tensor(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    ll.fit(model, moons(), folder=tmp_path / "run", epochs=1, progress=False, with_report=False)
    wider = torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
    with pytest.raises(CheckpointError, match=r"0\.weight: \(4, 2\) stored, \(5, 2\) wanted"):
        ll.load(tmp_path / "run", model=wider)
    deeper = torch.nn.Sequential(*model, torch.nn.Linear(1, 1))
    with pytest.raises(CheckpointError, match=r"3\.bias: nothing stored"):
        ll.load(tmp_path / "run", model=deeper)


def test_step_0_stays_and_at_most_three_are_kept(often, tmp_path):
    fit(tmp_path / "run")
    names = [path.name for path in checkpoint.steps(tmp_path / "run" / "checkpoints")]
    assert names == ["step-0000000000", "step-0000000011", "step-0000000012"]


def test_no_checkpoint_at_all(tmp_path):
    fit(tmp_path / "run", StopAt(3))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(CheckpointError, match="must have a checkpoint"):
        ll.resume(tmp_path / "run", progress=False)


def test_loading_leaves_a_writer_of_the_same_run_alone(tmp_path):
    """One may look into a run while it trains."""
    fit(tmp_path / "run", StopAt(3))
    half = tmp_path / "run" / "checkpoints" / ".tmp-step-0000000004"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"being written")
    ll.load(tmp_path / "run")
    ll.replay(tmp_path / "run", 1)
    assert (half / "weights.safetensors").read_bytes() == b"being written"
    ll.resume(tmp_path / "run", progress=False, with_report=False)
    assert not half.exists()
