"""Every optimizer and every rule that goes downhill trains through `fit`, and goes on bit for bit."""

import pytest
import torch
from engine_runs import StopAt, hashes, mlp, moons, same, state_of

import leadline as ll
from leadline.engine import compiled
from leadline.optim import Gradient
from leadline.settings import Settings

CASES = {
    **{name: {"optimizer": name} for name in ("amsgrad", "adadelta", "muon", "yogi", "swats", "averaged", "sam")},
    **{name: {"optimizer": name} for name in ("nesterov_printed", "nesterov_ahead", "sign", "adam_printed", "entropy")},
    "sam, clip, accumulate": {"optimizer": "sam", "clip": 0.5, "accumulate": 2},
    **{name: {"schedule": name} for name in ("restarts(2)", "cyclic(2)", "inverse(5)", "one_cycle")},
    "with replacement": {"replacement": True},
    "SVRG": {"rule": ll.optim.SVRG(0.3, passes=1)},
    "PerExampleAdam": {"rule": ll.optim.PerExampleAdam(0.01)},
    # those that search or solve see all rows at once
    **{f"{m} search": {"rule": ll.optim.LineSearch(m), "batch": 99} for m in ("bracketing", "armijo", "wolfe")},
    "DampedNewton": {"rule": ll.optim.DampedNewton(), "batch": 99},
    "GaussNewton": {"rule": ll.optim.GaussNewton(), "batch": 99},
}
#: rates at which a run of 18 steps gets somewhere
RATES = {"adadelta": 5.0, "averaged": 0.3, "nesterov_printed": 0.3, "nesterov_ahead": 0.3, "sam": 0.1, "entropy": 0.1}


def begin(case, folder, *listeners):
    options = {"batch": 16, "epochs": 6, "seed": 7, "progress": False, "with_report": False, **CASES[case]}
    if "rule" not in options:
        options["lr"] = RATES.get(case.split(",")[0], 0.02)
    return ll.fit(mlp(p_drop=0.1), moons(), folder=folder, listeners=listeners, **options)


@pytest.mark.parametrize("case", CASES)
def test_it_trains_and_goes_on_bit_for_bit(case, tmp_path):
    whole = begin(case, tmp_path / "whole")
    assert whole.history[-1]["train"]["loss"] < whole.history[0]["train"]["loss"]
    begin(case, tmp_path / "parts", StopAt(whole.history[-1]["step"] * 2 // 3))
    torch.manual_seed(99)
    run = ll.resume(tmp_path / "parts", progress=False, with_report=False)
    assert same(state_of(run.model), state_of(whole.model)) and run.history == whole.history
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")


def test_a_switch_from_adam_to_sgd_is_remembered():
    p = torch.nn.Parameter(torch.tensor([1.0, -3.0]))
    ends = []
    for parts in (1, 2):
        with torch.no_grad():
            p.copy_(torch.tensor([1.0, -3.0]))
        rule = ll.optim.SWATS([p], 0.05, tolerance=0.05)
        for k in range(60):
            if parts == 2 and k == 30:
                assert rule.rate is not None and rule.switched_at < 30
                state = rule.state_dict()
                rule = ll.optim.SWATS([p], 0.05, tolerance=0.05)
                rule.load_state_dict(state)
            p.grad = torch.tensor([1.0, 4.0]) * p.detach()
            rule.step()
        ends.append(p.detach().clone())
    assert torch.equal(*ends)


@pytest.mark.parametrize("name", ["sam", "muon", "yogi", "amsgrad", "nesterov_ahead"])
def test_what_has_no_inline_form_says_so_and_stays_eager(name):
    rule = Gradient(Settings(optimizer=name))
    model = mlp()
    rule.bind(model, ll.likelihoods.Bernoulli(), 10)
    assert compiled.obstacle(rule, torch.device("cpu"))
    with_rule = ll.optim.SVRG()
    with_rule.bind(model, ll.likelihoods.Bernoulli(), 10)
    assert compiled.obstacle(with_rule, torch.device("cpu")) == "the rule is not gradient descent"
