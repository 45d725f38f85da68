"""fit, load and replay as a user meets them."""

import os
from pathlib import Path

import pytest
import torch

import leadline as ll
from leadline import session
from leadline.engine import keeper
from leadline.engine.events import StepsDone
from leadline.errors import CheckpointError, DataError, RunError, UnknownName, UserError


def model(**options):
    torch.manual_seed(0)
    return ll.models.MLP(2, (6, 5), 1, **{"p_drop": 0.3, **options})


class Losses:
    """A listener that keeps the loss of each step."""

    def __init__(self):
        self.values = []

    def __call__(self, event):
        if isinstance(event, StepsDone):
            self.values += event.losses.tolist()


def fit(folder=None, made=None, data=None, **options):
    return ll.fit(
        made or model(),
        data or ll.data.moons(num=60),
        folder=folder,
        progress=False,
        with_report=False,
        **{"epochs": 4, "batch": 16, "seed": 2, **options},
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_load_gives_the_run_back_and_changes_nothing(tmp_path):
    run = fit(tmp_path / "run")
    before = tree(tmp_path / "run")
    loaded = ll.load(tmp_path / "run")
    assert tree(tmp_path / "run") == before
    for (name, a), (_, b) in zip(run.model.state_dict().items(), loaded.model.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert dict(loaded.evaluate("test")) == dict(run.evaluate("test"))
    assert (loaded.reason, loaded.best_epoch, loaded.history) == (run.reason, run.best_epoch, run.history)
    assert loaded.settings == run.settings
    assert [f.to_dict() for f in loaded.findings] == [f.to_dict() for f in run.findings]
    rows = run.data.test.x[:5]
    assert torch.equal(loaded.predict(rows).mean, run.predict(rows).mean)


def test_load_of_a_real_target_keeps_its_unit(tmp_path):
    torch.manual_seed(0)
    run = ll.fit(ll.models.MLP(1, (5,), 1), ll.data.line(num=60), folder=tmp_path / "run", epochs=3, progress=False)
    loaded = ll.load(tmp_path / "run")
    assert dict(loaded.evaluate("test")) == dict(run.evaluate("test"))
    assert run.report == tmp_path / "run" / "report.html"


@pytest.mark.parametrize("save_often", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 2}, {"optimizer": "sgd", "lr": 0.1}, {"validate_every": 3}, {"clip": 0.1}]
)
def test_replay_gives_the_loss_of_any_step(tmp_path, monkeypatch, options, save_often):
    if save_often:
        monkeypatch.setattr(keeper, "_LEAST_SECONDS", -1.0)
        monkeypatch.setattr(keeper, "_SHARE", 0.0)
    losses = Losses()
    fit(tmp_path / "run", made=model(norm="batch"), listeners=[losses], **options)
    before = tree(tmp_path / "run")
    for step, loss in enumerate(losses.values):
        again = ll.replay(tmp_path / "run", step)
        assert again.loss == loss, step
        assert again.step == step and again.epoch == step // 3
    assert tree(tmp_path / "run") == before


def test_replay_of_a_users_own_model_with_torchs_dropout(tmp_path):
    def own():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))

    losses = Losses()
    fit(tmp_path / "run", made=own(), listeners=[losses])
    for step in (0, 5, 11):
        assert ll.replay(tmp_path / "run", step, model=own()).loss == losses.values[step]


def test_replay_gradients_are_those_of_the_batch(tmp_path):
    data = ll.data.moons(num=60)
    fit(tmp_path / "run", made=model(p_drop=0.0), data=data)
    again = ll.replay(tmp_path / "run", 4)
    twin = model(p_drop=0.0)
    twin.load_state_dict(again.weights)
    x = torch.stack([data.train.x[data.train.rows.tolist().index(row)] for row in again.rows])
    y = torch.tensor([float(data.train.y[data.train.rows.tolist().index(row)]) for row in again.rows])
    loss = ll.likelihoods.likelihood_for(data.target).loss(twin(x), y).mean()
    loss.backward()
    assert again.loss == pytest.approx(float(loss.detach()), rel=1e-6)
    for name, p in twin.named_parameters():
        torch.testing.assert_close(again.gradients[name], p.grad, rtol=1e-5, atol=1e-7)
    plain = again.to_dict()
    assert plain["gradients"]["head.weight"]["norm"] == pytest.approx(float(twin.head.weight.grad.norm()), rel=1e-5)


def test_replay_covers_every_row_once_an_epoch(tmp_path):
    run = fit(tmp_path / "run")
    rows = [row for step in range(3, 6) for row in ll.replay(tmp_path / "run", step).rows]
    assert sorted(rows) == sorted(run.data.train.rows.tolist())


@pytest.mark.parametrize("step", [-1, 12, 10**9])
def test_replay_outside_the_run_is_refused(tmp_path, step):
    fit(tmp_path / "run")
    with pytest.raises(UserError, match="0 … 11"):
        ll.replay(tmp_path / "run", step)


def test_replay_after_an_early_stop_is_refused(tmp_path):
    """Steps that the run never made have no loss to give back."""
    run = fit(tmp_path / "run", epochs=30, patience=2, lr=1e-9)
    made = run.history[-1]["step"]
    assert run.reason == "stopped early" and made < 90
    ll.replay(tmp_path / "run", made - 1)
    with pytest.raises(UserError, match=f"0 … {made - 1}"):
        ll.replay(tmp_path / "run", made)


def test_predictions_take_what_people_have(tmp_path):
    run = fit()
    rows = [[0.0, 1.0], [1.0, -0.5]]
    expected = run.predict(torch.tensor(rows)).mean
    assert torch.equal(run.predict(rows).mean, expected)
    assert torch.equal(run.predict(torch.tensor(rows).numpy()).mean, expected)


def test_likelihood_by_name_and_unknown_name():
    data = ll.data.moons(num=60)
    assert type(fit(likelihood="bernoulli").likelihood).__name__ == "Bernoulli"
    with pytest.raises(UnknownName, match="Bernoulli"):
        ll.fit(model(), data, likelihood="bernouli", progress=False)


@pytest.mark.parametrize(
    ("name", "closest"),
    [("epoch", "epochs"), ("learning_rate", "Known"), ("batchsize", "batch"), ("weightdecay", "weight_decay")],
)
def test_unknown_settings_answer_with_the_closest(name, closest):
    with pytest.raises(UnknownName, match=closest):
        fit(**{name: 3})


def test_wrong_width_is_refused_before_the_first_step(tmp_path):
    with pytest.raises(UserError, match="dim_output=1"):
        ll.fit(ll.models.MLP(2, (4,), 3), ll.data.moons(num=60), folder=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_an_empty_split_has_no_metrics():
    run = fit(data=ll.data.moons(num=60, test=0.0))
    with pytest.raises(DataError, match="Evaluate train or val"):
        run.evaluate("test")
    with pytest.raises(UnknownName, match="test"):
        run.evaluate("tset")


def test_unknown_device():
    with pytest.raises(UserError, match="--device cpu"):
        fit(device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="this machine has"):
            fit(device="cuda")


def test_a_wish_to_compile_that_cannot_be_met_is_noted(tmp_path):
    run = fit(tmp_path / "run", compile="on", accumulate=2)
    assert run.settings.compile == "off"
    assert '"not compiled: gradients are accumulated"' in (tmp_path / "run" / "run.json").read_text()


def test_a_rule_of_ones_own_trains_and_resumes(tmp_path):
    """Perceptron-like: moves the bias alone, remembers how often; anything with `step` and `state` will do."""

    class Counting(ll.optim.Rule):
        def bind(self, model, likelihood, total_steps):
            self.model, self.likelihood, self.count = model, likelihood, 0

        def step(self, batch, index):
            with torch.no_grad():
                loss = self.likelihood.loss(self.model(batch.x), batch.y).mean()
                self.model.map.bias += 0.01 * (self.count + 1)
            self.count += 1
            return loss

        def state(self):
            return {"count": self.count}

        def load_state(self, state):
            self.count = state["count"]

    def begin(folder, *listeners):
        torch.manual_seed(0)
        return fit(folder, made=ll.models.Linear(2, 1), rule=Counting(), listeners=listeners, validate_every=4)

    whole = begin(tmp_path / "whole")

    def stop(event):
        if isinstance(event, StepsDone) and event.step == 5:
            os.kill(os.getpid(), 2)

    begin(tmp_path / "parts", stop)
    with pytest.raises(RunError, match="rule="):
        ll.resume(tmp_path / "parts", progress=False)
    ended = ll.resume(tmp_path / "parts", rule=Counting(), progress=False, with_report=False)
    assert torch.equal(ended.model.map.bias, whole.model.map.bias)
    loaded = ll.load(tmp_path / "parts")
    assert torch.equal(loaded.model.map.bias, whole.model.map.bias)


def test_a_likelihood_with_its_options_comes_back(tmp_path):
    data = ll.data.line(num=60)
    likelihood = ll.likelihoods.Normal(variance="input", shift=data.target.shift, scale=data.target.scale)
    run = ll.fit(
        ll.models.MLP(1, (5,), 2), data, likelihood=likelihood, folder=tmp_path / "run", epochs=2, progress=False
    )
    loaded = ll.load(tmp_path / "run")
    assert loaded.likelihood.config == likelihood.config
    assert dict(loaded.evaluate("val")) == dict(run.evaluate("val"))


def test_a_damaged_checkpoint_is_not_loaded(tmp_path):
    fit(tmp_path / "run")
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    content = bytearray((newest / "best.safetensors").read_bytes())
    content[-1] ^= 1
    (newest / "best.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="best.safetensors"):
        ll.load(tmp_path / "run")


def test_repr_says_where_and_how(tmp_path):
    run = fit(tmp_path / "run")
    assert repr(run) == f"Run(MLP on moons: finished in {tmp_path / 'run'})"


@pytest.mark.parametrize("wrong", [{"optimizer": 3}, {"schedule": []}, {"optimizer": torch.optim.AdamW}])
def test_an_optimizer_or_schedule_of_no_known_kind_is_refused(wrong):
    [name] = wrong
    with pytest.raises(UserError, match=f"{name} must be a name, or a torch"):
        ll.fit(model(), ll.data.moons(num=60), **wrong)


def test_measuring_rows_of_the_callers_checks_their_y():
    run = ll.fit(ll.models.MLP(2, (4,), 1), ll.data.moons(num=60), epochs=1, progress=False)
    with pytest.raises(UserError, match="0"):
        run.measure(torch.zeros(3, 2), torch.tensor([0, 1, 5]))


def test_of_a_long_text_some_rows_are_judged_and_the_others_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_JUDGED", 64)
    monkeypatch.setattr(session, "_LEAST", 5)
    (tmp_path / "book.txt").write_text("".join(f"{k} sailors went to sea. " for k in range(200)))
    data = ll.data.text(str(tmp_path / "book.txt"), kind="bytes", length=8, cache=False)
    made = ll.models.build("GPT", data, data.target.dim, dim=8, num_layers=1, num_heads=2)
    run = fit(tmp_path / "run", made, data, epochs=1, batch=64)
    judged = run.findings is not None and run.scored[0]
    assert judged["train"].count == 64 // 8 < len(data.train)  # a row has eight answers
    assert judged["test"].count == len(data.test) and judged["val"].count == len(data.val)
    monkeypatch.setattr(session, "_LEAST", 20)
    assert session._scored(run)[0]["train"].count == 20
    assert run.evaluate("train").count == len(data.train)
