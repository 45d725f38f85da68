"""A gated network carries a number over ten steps."""

import torch

import leadline as ll


def adding(num, lag, seed=0):
    """Two channels: numbers of [0, 1], and a mark at the first step and `lag` behind it; asked is the sum of both."""
    numbers = torch.rand(num, lag + 1, generator=torch.Generator().manual_seed(seed))
    marks = torch.zeros_like(numbers)
    marks[:, 0], marks[:, lag] = 1, 1
    return torch.stack([numbers, marks], 1), numbers[:, 0] + numbers[:, lag]


def test_a_gru_adds_two_numbers_ten_steps_apart():
    data = ll.data.arrays(*adding(900, 10), kind="real")
    model = ll.models.build("Recurrent", data, 1, dim=16, num_layers=1, p_drop=0.0, pool="last")
    assert model.config["channels"] == 2 and model.config["channels_first"]
    run = ll.fit(model, data, epochs=6, batch=32, lr=0.02, progress=False, threads=1, findings=[], with_report=False)
    assert run.evaluate("test")["rmse"] < 0.1  # the mean of all sums is off by 0.41


def test_a_gru_copies_a_word_over_ten_others():
    stream = torch.Generator().manual_seed(0)
    x = torch.randint(4, 10, (1500, 12), generator=stream)
    y = torch.randint(4, (1500,), generator=stream)
    x[:, 0] = y
    torch.manual_seed(0)
    model = ll.models.Recurrent(4, num_tokens=10, dim=16, num_layers=1, p_drop=0.0, pool="last")
    moves = torch.optim.AdamW(model.parameters(), 0.02)
    for k in range(120):
        rows = slice(k * 32 % 1280, k * 32 % 1280 + 32)
        moves.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        moves.step()
    with torch.no_grad():
        right = model(x[1300:]).argmax(1) == y[1300:]
    assert float(right.float().mean()) > 0.95
