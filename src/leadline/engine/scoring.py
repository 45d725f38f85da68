"""Metrics of many members on their validation rows, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from leadline.engine.batched import linear_by_members
from leadline.engine.member import Member
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.tape import Repeated, replayable


class Score:
    """Args:
    members: all with validation rows.
    size: places in `weights`; those beyond `members` do not count.
    weights: of all places, stacked, by name.
    """

    def __init__(self, members: Sequence[Member], size: int, weights: dict[str, Tensor]):
        self.members, self.weights = members, weights
        feeds = [member.val for member in members if member.val is not None]
        self.counts = [len(feed) for feed in feeds]
        most = max(self.counts)
        pad = lambda t: torch.cat([t, t[:1].expand(most - len(t), *t.shape[1:])])  # noqa: E731
        shared = len({feed.x.data_ptr() for feed in feeds}) == len({feed.y.data_ptr() for feed in feeds}) == 1
        self.axis = None if shared else 0
        columns = [(feed.x, feed.y) for feed in feeds]
        if shared:
            self.x, self.y = columns[0]
        else:
            filled = [*columns, *[columns[0]] * (size - len(columns))]
            self.x, self.y = (torch.stack([pad(pair[k]) for pair in filled]) for k in (0, 1))
        self.weight = torch.zeros(len(feeds), most, dtype=torch.float64, device=self.x.device)
        for m, feed in enumerate(feeds):
            self.weight[m, : len(feed)] = 1.0 if feed.weight is None else feed.weight.double()
        template = members[0]
        self.module = _Measured(template.model, template.likelihood)
        self.names = [name for name in weights if name.startswith(("model.", "likelihood."))]
        quick = self.x.device.type == "cpu" and replayable([self.module.model, self.module.likelihood])
        self._means: Callable[[], Sequence[Tensor | None]]
        self._means = Repeated(self._compute, steady=True, small=True) if quick else self._compute

    @torch.no_grad()
    def __call__(self) -> list[dict[str, float]]:
        [means] = self._means()  # (M, measures), as for one run
        found = [dict(zip(self.module.names, row, strict=True)) for row in cast(Tensor, means).tolist()]
        return [member.likelihood.summary(row) for member, row in zip(self.members, found, strict=True)]

    def _compute(self) -> tuple[Tensor]:
        modes = [(module, module.training) for module in self.module.modules()]
        self.module.eval()
        one = lambda x, y, *values: functional_call(  # noqa: E731
            self.module, dict(zip(self.names, values, strict=True)), (x, y)
        )
        held = [self.weights[name] for name in self.names]
        with linear_by_members():
            values = vmap(one, in_dims=(self.axis, self.axis, *[0] * len(held)))(self.x, self.y, *held)
        for module, mode in modes:
            module.training = mode
        values = torch.where(self.weight[:, None] > 0, values[: len(self.counts)].double(), 0.0)
        return ((values * self.weight[:, None]).sum(-1) / self.weight.sum(1)[:, None],)


class _Measured(nn.Module):
    """What is averaged over validation rows, (measures, rows)."""

    def __init__(self, model: nn.Module, likelihood: Likelihood):
        super().__init__()
        self.model, self.likelihood = model, likelihood
        self.names: list[str] = []

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        measures = self.likelihood.measures(self.model(x), y)
        self.names = list(measures)
        return torch.stack([value.to(x.dtype) for value in measures.values()])
