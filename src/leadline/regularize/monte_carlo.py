"""Dropout at prediction time: masks drawn at random, or every mask there is.

    p(y | x) ≈ (1/S) Σ_s p(y | x, mask_s)                      Monte Carlo (Gal and Ghahramani, 2016)            (1)
    p(y | x) = Σ_b p(b) p(y | x, b),   p(b) = Π_i keep^{b_i} (1 - keep)^{1 - b_i}       all 2^n masks, small n   (2)
    p(y | x, all weights times keep)                           the weight-scaling rule: what evaluation mode is  (3)

Our dropout divides by the keep probability while training, so that (3) needs no scaling afterwards. (A source scales by
the dropout probability: right at one half only.) For one linear unit the mean of (2) is (3) exactly.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.dropout import Dropout
from leadline.regularize.several import Several
from leadline.regularize.trained import Trained, at_rest, encoded
from leadline.settings import whole

_MOST_UNITS = 14


@torch.no_grad()
def monte_carlo(trained: Trained, rows: Any, draws: int = 50, seed: int = 0) -> Several:
    """Eq. 1: the answers under `draws` masks, for every layer that draws noise in training, torch's dropout too.

    Args:
        trained: a run, or a `Member`.
        rows: raw rows.
        draws: S, at least 1.
        seed: of the masks; each row has masks of its own.

    >>> import leadline as ll
    >>> run = ll.fit(ll.models.MLP(2, (8,), 1, p_drop=0.5), ll.data.moons(num=90), epochs=2, progress=False)
    >>> said = monte_carlo(run, [[0.0, 1.0], [9.0, 9.0]], draws=20)
    >>> said.prediction.mean.shape, bool((said.epistemic > 0).all())
    (torch.Size([2]), True)
    """
    x = encoded(trained, rows)
    seed, place = whole("seed", seed, 0), torch.arange(len(x), device=x.device)
    drops = lambda m: bool(getattr(m, "draws_noise", False)) or isinstance(m, nn.modules.dropout._DropoutNd)  # noqa: E731
    if not any(drops(module) for module in trained.model.modules()):
        raise UserError("the model must have layers that draw noise", got="none", do="Build it with p_drop=0.2")
    parts = []
    with at_rest(trained.model, drops), torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        torch.manual_seed(noise.mix_int(seed))
        for draw in range(whole("draws", draws)):
            with noise.keyed(noise.example_keys(seed, draw, place)):
                parts.append(trained.likelihood.prediction(trained.model(x)))  # eq. 1
    return Several.of(parts)


@torch.no_grad()
def every_mask(trained: Trained, rows: Any) -> Several:
    """Eq. 2: the answers under each of the 2^n masks of the dropout layers, n at most 14, with their probabilities.

    >>> import leadline as ll
    >>> from leadline.regularize import Member
    >>> net = nn.Sequential(Dropout(0.25), nn.Linear(3, 1))
    >>> said = every_mask(Member(net, ll.likelihoods.Normal()), torch.ones(1, 3))
    >>> len(said.parts), round(float(said.weights.max()), 4)  # 0.75³
    (8, 0.4219)
    """
    x = encoded(trained, rows)
    layers = [module for module in trained.model.modules() if isinstance(module, Dropout) and module.p_drop > 0]
    masks: dict[nn.Module, Tensor] = {}

    def masked(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if module not in masks:
            return output
        return output * masks[module] / (1 - module.p_drop)  # type: ignore[operator]

    widths: dict[nn.Module, int] = {}
    measured = [m.register_forward_hook(lambda m, a, out: widths.__setitem__(m, out[0].numel())) for m in layers]
    hooks = []
    parts, weights = [], []
    try:
        with at_rest(trained.model):
            trained.model(x[:1])
            count = sum(widths.values())
            if not 0 < count <= _MOST_UNITS:
                raise UserError(
                    f"dropout layers must have 1 to {_MOST_UNITS} units in all to try every mask",
                    got=f"{count}",
                    do="Draw masks with monte_carlo",
                )
            hooks = [m.register_forward_hook(masked) for m in layers]
            keep = torch.cat([torch.full((widths[m],), 1 - m.p_drop, dtype=torch.float64) for m in layers])
            for number in range(2**count):
                bits = torch.tensor([number >> i & 1 for i in range(count)], dtype=x.dtype, device=x.device)
                for m, part in zip(layers, bits.split([widths[m] for m in layers]), strict=True):
                    masks[m] = part
                parts.append(trained.likelihood.prediction(trained.model(x)))
                kept = bits.double().cpu()
                weights.append((kept * keep + (1 - kept) * (1 - keep)).prod())
    finally:
        for hook in (*measured, *hooks):
            hook.remove()
    return Several.of(parts, torch.stack(weights))
