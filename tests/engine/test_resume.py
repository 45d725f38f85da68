"""A run that was stopped and taken up again ends as the one that never stopped, bit for bit."""

import json
import os
import random
import time

import pytest
import torch
from engine_runs import BreakAt, Breaks, StopAt, hashes, line, mlp, moons, own, same, state_of, text, weighted, written

import leadline as ll
from leadline.cli import main
from leadline.engine import checkpoint, keeper
from leadline.errors import RunError
from leadline.models.checkpointed import _Again


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every step."""
    monkeypatch.setattr(keeper, "_LEAST_SECONDS", -1.0)
    monkeypatch.setattr(keeper, "_SHARE", 0.0)


# name -> (model, whether resume needs it again, data, settings)
CASES = {
    "keyed dropout": (mlp, False, moons, {}),
    "own model, torch's dropout and batch norm": (own, True, moons, {}),
    "batch norm": (lambda: mlp(norm="batch"), False, moons, {}),
    "accumulate": (mlp, False, moons, {"accumulate": 3}),
    "accumulate, own dropout": (own, True, moons, {"accumulate": 2}),
    "weights": (mlp, False, weighted, {"again": True}),
    "sgd": (mlp, False, moons, {"optimizer": "sgd", "lr": 0.1}),
    "nesterov, clip": (mlp, False, moons, {"optimizer": "nesterov", "lr": 0.1, "clip": 0.5}),
    "sgd without momentum": (mlp, False, moons, {"optimizer": "sgd", "momentum": 0.0}),
    "adam": (mlp, False, moons, {"optimizer": "adam"}),
    "rmsprop": (mlp, False, moons, {"optimizer": "rmsprop"}),
    "nadam": (mlp, False, moons, {"optimizer": "nadam"}),
    "radam": (mlp, False, moons, {"optimizer": "radam"}),
    "adagrad": (mlp, False, moons, {"optimizer": "adagrad"}),
    "lbfgs": (lambda: mlp(p_drop=0.0), False, moons, {"optimizer": "lbfgs", "lr": 0.5}),
    "patience": (mlp, False, moons, {"patience": 2, "lr": 1e-6, "epochs": 9}),
    "validate every 2": (mlp, False, moons, {"validate_every": 2}),
    "parts of passes": (mlp, False, moons, {"epoch_steps": 3}),
    "float64": (mlp, False, moons, {"precision": "float64"}),
    "bf16": (mlp, False, moons, {"precision": "bf16"}),
    "even batches": (mlp, False, moons, {"batch": 13}),
    "learned variance": (lambda: mlp(1), False, line, {}),
    "carried states": (written, False, text, {"carry_state": True, "batch": 3, "compile": "off"}),
    "warm-up and linear schedule": (mlp, False, moons, {"warmup": 0.5, "schedule": "linear"}),
}


def begin(case, folder, *listeners):
    make, _, data, settings = CASES[case]
    settings = {"epochs": 4, "batch": 16, **settings}
    settings.pop("again", None)
    return ll.fit(
        make(), data(), folder=folder, progress=False, with_report=False, listeners=listeners, seed=7, **settings
    )


def go_on(case, folder, *listeners):
    make, again, data, settings = CASES[case]
    given = {"model": make()} if again else {}
    if settings.get("again"):
        given["data"] = data()
    torch.manual_seed(12345)  # what the process did before must not matter
    return ll.resume(folder, progress=False, with_report=False, listeners=listeners, **given)


@pytest.mark.parametrize("case", CASES)
def test_stopped_and_resumed_equals_uninterrupted(case, tmp_path):
    whole = begin(case, tmp_path / "whole")
    total = whole.history[-1]["step"]
    rng = random.Random(case)
    stops = sorted(rng.sample(range(1, total), 2))
    stopped = begin(case, tmp_path / "parts", StopAt(stops[0]))
    assert stopped.reason == "interrupted"
    again = go_on(case, tmp_path / "parts", StopAt(stops[1]))
    assert again.reason == "interrupted"
    ended = go_on(case, tmp_path / "parts")
    assert ended.reason == whole.reason
    assert ended.history == whole.history
    assert ended.best_epoch == whole.best_epoch
    assert same(state_of(ended.model), state_of(whole.model))
    assert same(state_of(ended.likelihood), state_of(whole.likelihood))
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")


def test_every_step(tmp_path):
    """Stopped after each step in turn, one step a process."""
    whole = begin("keyed dropout", tmp_path / "whole")
    total = whole.history[-1]["step"]
    begin("keyed dropout", tmp_path / "parts", StopAt(1))
    for step in range(2, total):
        go_on("keyed dropout", tmp_path / "parts", StopAt(step))
    go_on("keyed dropout", tmp_path / "parts")
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")


@pytest.mark.parametrize("case", ["keyed dropout", "own model, torch's dropout and batch norm", "validate every 2"])
@pytest.mark.parametrize("save_often", [True, False])
def test_broken_off_without_saving(case, save_often, tmp_path, request):
    """A process that vanishes goes on from its last checkpoint; lines written after it are written again."""
    if save_often:
        request.getfixturevalue("often")
    begin(case, tmp_path / "whole")
    for step in (2, 3, 8):
        folder = tmp_path / f"broken-{step}"
        with pytest.raises(Breaks):
            begin(case, folder, BreakAt(step))
        go_on(case, folder)
        assert hashes(folder) == hashes(tmp_path / "whole")


def test_checkpoints_do_not_change_the_run(tmp_path, request):
    begin("keyed dropout", tmp_path / "seldom")
    request.getfixturevalue("often")
    begin("keyed dropout", tmp_path / "each-step")
    assert hashes(tmp_path / "seldom") == hashes(tmp_path / "each-step")


def test_run_in_memory_equals_run_in_a_folder(tmp_path):
    kept = begin("keyed dropout", tmp_path / "kept")
    loose = begin("keyed dropout", None)
    assert same(state_of(kept.model), state_of(loose.model))
    assert kept.history == loose.history


def test_resume_of_a_finished_run_changes_nothing(tmp_path):
    begin("keyed dropout", tmp_path / "run")
    before = hashes(tmp_path / "run")
    run = go_on("keyed dropout", tmp_path / "run")
    assert run.reason == "finished"
    assert hashes(tmp_path / "run") == before


SCHEDULERS = {
    "step": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5),
    "multi-step": lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 7], 0.5),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12),
    "lambda": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step),
    "one cycle, of the rate": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.2, total_steps=13, cycle_momentum=False
    ),
    "one cycle, of the momentum too": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.2, total_steps=13
    ),
    "one after the other": lambda optimizer: torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8),
        ],
        [4],
    ),
}


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_torch_scheduler_and_optimizer_objects_resume(kind, tmp_path):
    def parts():
        model = own()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        return model, optimizer, SCHEDULERS[kind](optimizer)

    options = {"progress": False, "with_report": False}

    def start(folder, *listeners):
        model, optimizer, scheduler = parts()
        return ll.fit(
            model,
            moons(),
            optimizer=optimizer,
            schedule=scheduler,
            folder=folder,
            epochs=4,
            batch=16,
            listeners=listeners,
            **options,
        )

    start(tmp_path / "whole")
    start(tmp_path / "parts", StopAt(5))
    model, optimizer, scheduler = parts()
    ll.resume(tmp_path / "parts", model=model, optimizer=optimizer, schedule=scheduler, **options)
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")


def test_objects_must_be_given_again(tmp_path):
    model = own()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    ll.fit(model, moons(), optimizer=optimizer, folder=tmp_path / "run", epochs=2, progress=False, with_report=False)
    with pytest.raises(RunError, match="model of your own needs the model again.*Pass model="):
        ll.resume(tmp_path / "run")
    with pytest.raises(RunError, match="Pass optimizer="):
        ll.resume(tmp_path / "run", model=own())
    loaded = ll.load(tmp_path / "run", model=own())
    assert same(state_of(loaded.model), state_of(model))


def test_run_with_a_schedule_of_ones_own_loads(tmp_path):
    run = ll.fit(
        mlp(), moons(), schedule=lambda step: 1.0, folder=tmp_path / "run", epochs=2, progress=False, with_report=False
    )
    assert same(state_of(ll.load(tmp_path / "run").model), state_of(run.model))


def test_arrays_must_be_given_again(tmp_path):
    ll.fit(mlp(), weighted(), folder=tmp_path / "run", epochs=1, progress=False, with_report=False)
    with pytest.raises(RunError, match="data=") as caught:
        ll.resume(tmp_path / "run")
    assert "needs its data again" in str(caught.value)


def test_other_data_are_refused(tmp_path):
    ll.fit(mlp(), weighted(), folder=tmp_path / "run", epochs=1, progress=False, with_report=False)
    with pytest.raises(RunError, match="fingerprint"):
        ll.resume(tmp_path / "run", data=weighted(num=66))


def begin_or_go_on(folder, action):
    keeper._LEAST_SECONDS, keeper._SHARE = -1.0, 0.0
    if action == "fit":
        torch.manual_seed(0)
        model = ll.models.MLP(2, (6, 5), 1, p_drop=0.3)
        ll.fit(model, ll.data.moons(num=60), folder=folder, epochs=60, batch=16, progress=False, with_report=False)
    else:
        ll.resume(folder, progress=False, with_report=False)


def killed_until_it_ends(folder, kills, rng, forked):
    """Start the run and kill -9 it at random moments of its work, each time a new process; then let it end."""
    action, count = "fit", 0
    while True:
        process = forked(begin_or_go_on, folder, action)
        if count < kills:
            deadline = time.monotonic() + 60
            known = set(os.listdir(folder / "checkpoints")) if (folder / "checkpoints").exists() else set()
            while process.is_alive() and time.monotonic() < deadline:
                if (folder / "checkpoints").exists() and set(os.listdir(folder / "checkpoints")) - known:
                    break  # it works: now at any moment
                time.sleep(0.005)
            time.sleep(rng.random() * 0.4)
            process.kill()
        process.join(60)
        count += 1
        if (folder / "checkpoints").exists() and checkpoint.steps(folder / "checkpoints"):
            checkpoint.load(checkpoint.steps(folder / "checkpoints")[-1])  # whole, whatever happened
            action = "resume"
        if process.exitcode == 0 and count > kills:
            return


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_at_random_moments(kills, tmp_path, forked):
    ll.fit(mlp(), moons(), folder=tmp_path / "whole", epochs=60, batch=16, progress=False, with_report=False)
    killed_until_it_ends(tmp_path / "killed", kills, random.Random(kills), forked)
    assert hashes(tmp_path / "killed") == hashes(tmp_path / "whole")
    assert len((tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()) == 60
    assert json.loads((tmp_path / "killed" / "run.json").read_text())["ended"] == "finished"


@pytest.mark.parametrize("begun, asked", [(False, None), (False, True), (True, None), (True, False)])
def test_a_report_is_written_as_the_run_was_begun_unless_told(begun, asked, tmp_path, monkeypatch):
    monkeypatch.setattr("leadline.report.write", lambda facts, path: path.write_text("told"))
    folder = tmp_path / "run"
    options = {"epochs": 2, "batch": 16, "progress": False, "findings": []}
    ll.fit(mlp(), moons(), folder=folder, with_report=begun, listeners=[StopAt(1)], **options)
    said = {None: [], False: ["--no-report"], True: ["--report"]}[asked]
    assert main(["resume", str(folder), *said]) == 0
    assert (folder / "report.html").exists() is (begun if asked is None else asked)


def test_a_run_that_computes_activations_again_is_resumed_so(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog ran to the door. " * 30)
    data = ll.data.text(tmp_path / "text.txt", length=16, kind="bytes", cache=False)
    options = {"epochs": 2, "batch": 32, "progress": False, "findings": [], "recompute": True, "with_report": False}
    again, calls = _Again.__call__, []
    monkeypatch.setattr(_Again, "__call__", lambda self, *args, **more: calls.append(1) or again(self, *args, **more))

    def fit(name, *listeners):
        torch.manual_seed(0)
        model = ll.models.build("GPT", data, 0, dim=8, num_layers=2, num_heads=1)
        return ll.fit(model, data, folder=tmp_path / name, listeners=listeners, **options)

    whole = fit("whole")
    assert calls and fit("parts", StopAt(2)).reason == "interrupted"
    calls.clear()
    ended = ll.resume(tmp_path / "parts", progress=False)
    assert calls and ended.history == whole.history and hashes(tmp_path / "parts") == hashes(tmp_path / "whole")
