"""Members dealt to processes are the members of one process, and no process is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.engine import device, workers
from leadline.engine.events import EpochDone, RunEnded, RunStarted, StepsDone
from leadline.errors import ShapeError, UserError

pytestmark = pytest.mark.skipif(sys.platform != "linux" or torch.accelerator.is_available(), reason="cannot be forked")

NET = ll.models.MLP(2, (6,), 1)


@pytest.fixture
def started(monkeypatch):
    """Every population is worth workers; how many began, by population."""
    monkeypatch.setattr(workers, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    found, own = [], workers.Workers.__init__
    monkeypatch.setattr(workers.Workers, "__init__", lambda self, *a: (found.append(a[1]), own(self, *a))[1])
    yield found
    with pytest.raises(ChildProcessError):  # neither running nor waiting to be asked how they ended
        os.waitpid(-1, os.WNOHANG)


def both(members, data=None, model=NET, **settings):
    """The same population in one process and in two or more."""
    data = data or ll.data.moons(num=90)
    settings = {"epochs": 4, "batch": 16, "precision": "float64", "progress": False, "compile": "off", **settings}
    return [ll.fit_many(model, data, members, threads=threads, **settings) for threads in (1, None)]


def assert_same(one, dealt, tolerance=1e-12):
    assert [run.reason for run in one] == [run.reason for run in dealt]
    assert [run.best_epoch for run in one] == [run.best_epoch for run in dealt]
    for a, b in zip(one, dealt, strict=True):
        for mine, other in ((a.model, b.model), (a.likelihood, b.likelihood)):
            for p, q in zip(mine.state_dict().values(), other.state_dict().values(), strict=True):
                torch.testing.assert_close(p, q, rtol=0, atol=tolerance)
        for mine, other in zip(a.history, b.history, strict=True):
            assert mine["step"] == other["step"] and mine["train"] == pytest.approx(other["train"], abs=tolerance)
            assert mine["val"] == pytest.approx(other["val"], abs=tolerance)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_members_are_those_of_one_process(started, precision):
    members = [{"seed": k, "lr": 0.01 * (k + 1), "label_noise": 0.1 * k} for k in range(5)]
    model = ll.models.MLP(2, (6,), 1, norm="batch", p_drop=0.2)
    runs = both(members, model=model, precision=precision, optimizer="sgd")  # Adam would make much of rounding
    assert_same(*runs, 1e-12 if precision == "float64" else 1e-6)
    assert started == [2]


def test_folds_of_different_sizes_early_ends_and_a_learned_width(started):
    data = ll.data.sine(num=103)
    members = [{"seed": k, "data": fold, "patience": 1 + k} for k, fold in enumerate(ll.data.folds(data, 4))]
    one, dealt = both(members, data, ll.models.MLP(1, (6,), 1), epochs=9, lr=0.1)
    assert_same(one, dealt, 1e-9)
    assert len({len(run.history) for run in dealt}) > 1 and started == [2]


def test_layers_with_noise_of_torchs_own_draw_other_numbers_in_each_worker(started):
    net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    first, second = both([{"seed": 0}, {"seed": 0}], model=net)[1]
    assert not torch.equal(first.model[0].weight, second.model[0].weight) and started == [2]


def test_weights_come_back_bit_for_bit():
    def member():
        net = nn.BatchNorm1d(3)
        net.register_buffer("flag", torch.rand(5) > 0.5)
        net.register_buffer("short", torch.randn(3, dtype=torch.bfloat16))
        net.register_buffer("none", torch.zeros(0))
        net.turned = nn.Parameter(torch.randn(4, 2).t())
        return SimpleNamespace(rule=SimpleNamespace(objective=net))

    here, there = [member(), member()], [member(), member()]
    workers._put(here, bytes(workers._bytes(there).numpy()))
    for mine, other in zip(here, there, strict=True):
        states = (m.rule.objective.state_dict().values() for m in (mine, other))
        assert all(torch.equal(p, q) for p, q in zip(*states, strict=True))


def test_listeners_hear_of_all_members_in_this_process(started):
    heard = []
    for threads in (1, None):
        events = []
        both_settings = {"epochs": 3, "batch": 16, "precision": "float64", "progress": False, "compile": "off"}
        members = ll.members(seed=range(3))
        ll.fit_many(NET, ll.data.moons(num=90), members, threads=threads, listeners=[events.append], **both_settings)
        heard.append(events)
    one, dealt = heard
    of = lambda kind, events: [event for event in events if isinstance(event, kind)]  # noqa: E731
    assert of((RunStarted, RunEnded), one) == of((RunStarted, RunEnded), dealt)
    assert isinstance(dealt[0], RunStarted) and isinstance(dealt[-1], RunEnded)
    for a, b in zip(of(EpochDone, one), of(EpochDone, dealt), strict=True):
        assert (a.epoch, a.step, a.lr) == pytest.approx((b.epoch, b.step, b.lr))
        for split, metrics in a.metrics.items():
            assert metrics == pytest.approx(b.metrics[split], abs=1e-12)
    losses = [torch.cat([event.losses for event in of(StepsDone, events)]).sort().values for events in heard]
    torch.testing.assert_close(*losses)
    steps = [event.step for event in of(StepsDone, dealt)]
    assert steps == sorted(steps) and steps[-1] == dealt[-1].step and started == [2]


# ── ends ──


def long(listener, model=NET, **settings):
    """A population that does not end by itself."""
    settings = {"epochs": 100_000, "schedule": "constant", "progress": False, "compile": "off", **settings}
    return ll.fit_many(model, ll.data.moons(num=60), ll.members(seed=range(3)), listeners=[listener], **settings)


class At:
    """A listener that acts once, when the first epoch is announced."""

    def __init__(self, act):
        self.act, self.acted = act, False

    def __call__(self, event):
        if isinstance(event, EpochDone) and not self.acted:
            self.acted = True
            self.act()


def children():
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_members_after_an_epoch(started, number):
    def everywhere():  # a terminal tells the workers too
        for pid in (*children(), os.getpid()):
            os.kill(pid, number)

    before = signal.getsignal(number)
    population = long(At(everywhere))
    assert population.reasons == {"interrupted": 3} and started == [2] and signal.getsignal(number) is before
    for run in population:
        assert 0 < run.best_epoch <= len(run.history) < 100_000


def test_a_second_signal_ends_the_call(started):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        long(At(twice))
    assert started == [2]


def test_a_listener_that_fails_ends_the_workers(started):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        long(At(fail))
    assert started == [2]


class Own(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class Fails(nn.Module):
    """Raises in a worker."""

    def __init__(self, error):
        super().__init__()
        self.layer, self.error, self.here = nn.Linear(2, 1), error, os.getpid()

    def forward(self, x):
        if os.getpid() != self.here:
            raise self.error
        return self.layer(x)


def local():
    class Local(Exception):
        pass

    return Local("of a function")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (RuntimeError("not enough memory"), RuntimeError, "^not enough memory"),
        (ShapeError("x must fit", got="y", do="Turn it"), ShapeError, "^x must fit. Got y. Turn it."),
        (Own("two", "words"), Own, "^two words"),
        (local(), RuntimeError, "^Local: of a function"),
    ],
)
def test_an_error_in_a_worker_is_raised_here(started, error, kind, words):
    with pytest.raises(kind, match=words) as caught:
        long(At(list), lambda: Fails(error))
    assert "in forward" in caught.value.__notes__[0] and started == [2]


def test_a_worker_that_is_killed_is_told(started):
    with pytest.raises(UserError, match="ended by SIGKILL. Memory may be short: pass threads=1"):
        long(At(lambda: os.kill(children()[1], signal.SIGKILL)))
    assert started == [2]


def test_where_no_process_can_be_started_one_does_it_all(started, monkeypatch):
    own, asked = os.fork, []

    def fork():
        asked.append(1)
        if len(asked) == 2:
            raise BlockingIOError("Resource temporarily unavailable")
        return own()

    monkeypatch.setattr(os, "fork", fork)
    assert_same(*both(ll.members(seed=range(3))))
    assert len(asked) == 2


SCRIPT = """
    import atexit, sys
    import leadline as ll
    from leadline.engine import workers

    workers.WORTH_SECONDS, workers.cores = 0.0, lambda: 2
    atexit.register(print, "end")
    print("begin")
    settings = {"epochs": int(sys.argv[1]), "schedule": "constant", "compile": "off", "progress": False}
    said = lambda event: print(type(event).__name__, file=sys.stderr, flush=True)
    net, data = ll.models.MLP(2, (6,), 1), ll.data.moons(num=60)
    ll.fit_many(net, data, ll.members(seed=range(2)), listeners=[said], **settings)
"""


def begin(epochs):
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(epochs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_waits_to_be_written_is_written_once():
    with begin(2) as process:
        assert process.communicate()[0] == "begin\nend\n" and process.returncode == 0


def test_workers_end_when_the_process_that_began_them_is_killed():
    def alive(pid):
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        return False

    with begin(100_000) as process:
        while process.stderr.readline() != "EpochDone\n":
            pass
        found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(found) == 2 and all(map(alive, found))
        process.kill()
        process.wait()
        until = time.monotonic() + 10
        while any(map(alive, found)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(map(alive, found))


# ── when ──


def test_one_thread_is_one_process(started):
    ll.fit_many(NET, ll.data.moons(num=60), ll.members(seed=range(2)), epochs=1, threads=1, progress=False)
    assert started == []


def test_there_are_no_more_workers_than_members_cores_and_threads_asked_for(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 4)
    assert workers.most_workers(10, None) == 4 and workers.most_workers(3, None) == 3
    assert workers.most_workers(10, 2) == 2 and workers.most_workers(10, 1) == 1
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert workers.most_workers(10, None) == 1


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({}, 8),
    ],
)
def test_a_container_has_the_cores_that_it_is_given(files, count, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "_LIMITS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert device.cores() == count


def test_a_step_is_compiled_once_and_before_workers_begin(started, monkeypatch):
    here, compiled = os.getpid(), []

    def compile(graph, inputs, options):
        assert os.getpid() == here
        compiled.append(graph)
        return graph

    monkeypatch.setattr("torch._inductor.compile", compile)
    monkeypatch.setattr("leadline.engine.step._KNOWN", {})
    data = ll.data.moons(num=103)
    members = [{"seed": k, "data": fold} for k, fold in enumerate(ll.data.folds(data, 5))]
    one, dealt = both(members, data, compile="on")
    assert_same(one, dealt)
    assert len(compiled) == 2 and started == [2]  # in one process a chunk is larger
