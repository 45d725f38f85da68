"""Paths through a residual network: how many, and how strong (Veit et al., 2016).

    block       h_k = s_k(h_{k-1}) + f_k(h_{k-1})                    s_k the skip, f_k all else that the block does  (1)
    unravelled  ∂y/∂x = Σ_{P ⊆ {1…K}} Π_k J_k(P),    J_k = ∂f_k if k is in P, else ∂s_k                            (2)
    counts      C(K, l) paths of length l = |P|, 2^K in all                                                        (3)
    share       of length l:  C(K, l) · mean over its paths of ‖their term of (2)‖,  over the sum of these          (4)

All terms of (2) are taken at the activations of the whole network: the pass forward is the usual one, and on the way
back each block lets the gradient through its skip or through its branch. Up to `most` paths are all taken; of more,
`draws` of each length are sampled.

What counts as a block, as its skip and as its branch, is said in `leadline.lens.skips`. A block that is called twice
counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.account import counted
from leadline.errors import UserError
from leadline.lens.at_rest import exactly
from leadline.lens.place import seen
from leadline.lens.skips import Blocks, blocks_of, watched
from leadline.lens.style import FULL, HUES, blank, label, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Objective = Callable[[Tensor], Tensor]


def path_counts(blocks: int) -> tuple[int, ...]:
    """Paths of each length through that many residual blocks, eq. 3.

    >>> path_counts(4), sum(path_counts(54)[5:18]) / 2**54 < 0.005
    ((1, 4, 6, 4, 1), True)
    """
    K = whole("blocks", blocks, 0, usual=4)  # noqa: N806
    return tuple(math.comb(K, length) for length in range(K + 1))


@dataclass(frozen=True, eq=False)
class PathGradients(View):
    """The gradient with respect to the input, path by path.

    Args:
        blocks: paths of the blocks, in the order of their calls.
        counts: eq. 3, by length from 0.
        norms: size of one path's gradient, mean over rows and the paths looked at, by length.
        share: eq. 4.
        looked: paths looked at, by length; `exact` when all of them.
        total: size of the whole gradient, mean over rows.
        gap: ‖sum of all terms - gradient by autograd‖ / ‖gradient‖; nan when not all were looked at.
    """

    blocks: tuple[str, ...]
    counts: np.ndarray
    norms: np.ndarray
    share: np.ndarray
    looked: np.ndarray
    exact: bool
    total: float
    gap: float

    @property
    def median(self) -> int:
        """The length up to which paths carry half of the share."""
        return int((self.share.cumsum() < 0.5).sum())

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.1)
        axes = figure.subplots(1, 3)
        at = np.arange(len(self.counts))
        paths = self.counts / self.counts.sum()
        half = int((paths.cumsum() < 0.5).sum())
        for ax, values, hue, title, y in (
            (axes[0], 100 * paths, HUES[0], f"Paths: half are up to {half} long", "share of the paths, %"),
            (axes[1], self.norms, HUES[3], "Gradient of one path", "size of the gradient"),
            (
                axes[2],
                100 * self.share,
                HUES[1],
                f"Gradient: half by up to {self.median}",
                "share of the gradient, %",
            ),
        ):
            if ax is axes[1]:
                ax.plot(at, np.where(values > 0, values, np.nan), "o-", ms=3, color=hue)
                seen_ = values[values > 0]
                ax.set_yscale("log" if len(seen_) and seen_.max() > 30 * seen_.min() else "linear")
            else:
                ax.bar(at, values, width=0.9, color=hue)
            label(ax, title, f"length, of {counted(len(at) - 1, 'block')}", y)
        return figure


def path_terms(
    model: nn.Module,
    x: Any,
    blocks: Blocks | None = None,
    *,
    objective: Objective | None = None,
    start: int = 0,
    most: int = 4096,
) -> dict[tuple[int, ...], Tensor]:
    """Every term of eq. 2, by the numbers (from 1) of the blocks whose branches its path takes, in float64.

    Args:
        x: Data, or rows as the network reads them.
        blocks: modules or paths; None finds those that are marked.
        objective: what is differentiated, a number made of the output; None is the sum of all outputs.
        start: the gradient is taken with respect to what this block puts out, from 1; 0 is the model's input.
        most: paths at most.

    >>> from leadline.models import Residual
    >>> terms = path_terms(Residual(3, (3, 3, 3, 3), 1), torch.randn(2, 3), start=1)
    >>> len(terms), sorted(terms)[:3], terms[2, 4].shape
    (8, [(), (2,), (2, 3)], torch.Size([2, 3]))
    """
    model, rows = seen(model, x)
    with _gated(model, rows, blocks, objective, start) as gates:
        free = list(range(start + 1, len(gates.switches) + 1))
        if 2 ** len(free) > most:
            raise UserError(
                "all terms must be few enough to write down",
                got=f"{counted(len(free), 'block')}, 2^{len(free)} paths",
                do="Use path_gradients, which samples, or pass a larger start or most",
            )
        return {path: gates.gradient(path) for path in _all_paths(free)}


def path_gradients(
    model: nn.Module,
    x: Any,
    blocks: Blocks | None = None,
    *,
    objective: Objective | None = None,
    draws: int = 16,
    most: int = 512,
    num: int = 16,
    split: str = "train",
    seed: int = 0,
) -> PathGradients:
    """How much of the gradient comes over paths of each length. The model is left as it was.

    Args:
        x: Data, or rows as the network reads them.
        blocks: modules or paths; None finds those that are marked.
        objective: what is differentiated, a number made of the output; None is the sum of all outputs.
        draws: paths of each length that are sampled, where there are more than `most` in all.
        num: rows at most; seed: of the sampled paths.

    >>> from leadline.models import Residual
    >>> view = path_gradients(Residual(3, (3, 3, 3, 3), 1), torch.randn(5, 3))
    >>> view.counts.tolist(), view.gap < 1e-12
    ([1.0, 4.0, 6.0, 4.0, 1.0], True)
    """
    draws, most = whole("draws", draws, 1, usual=16), whole("most", most, 1, usual=512)
    model, rows = seen(model, x, split=split, num=whole("num", num, 1, usual=16))
    pick = np.random.default_rng(whole("seed", seed, 0, usual=0))
    with _gated(model, rows, blocks, objective, 0) as gates:
        K = len(gates.switches)  # noqa: N806
        whole_ = gates.gradient(None)
        exact = most >= 2**K
        sizes: list[list[float]] = [[] for _ in range(K + 1)]
        total = torch.zeros_like(whole_)
        for path in _all_paths(range(1, K + 1)) if exact else _some_paths(K, draws, pick):
            term = gates.gradient(path)
            sizes[len(path)].append(float(term.flatten(1).norm(dim=1).mean()))
            if exact:
                total += term
        names = gates.names
    counts = np.array([float(n) for n in path_counts(K)])
    norms = np.array([np.mean(each) for each in sizes])
    parts = counts * norms
    gap = float((total - whole_).norm() / whole_.norm().clamp(min=1e-300)) if exact else math.nan
    return PathGradients(
        tuple(names),
        counts,
        norms,
        parts / (parts.sum() or 1.0),  # eq. 4
        np.array([len(each) for each in sizes]),
        exact,
        float(whole_.flatten(1).norm(dim=1).mean()),
        gap,
    )


def _all_paths(blocks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for length in range(len(blocks) + 1):
        yield from combinations(blocks, length)


def _some_paths(K: int, draws: int, pick: np.random.Generator) -> Iterator[tuple[int, ...]]:  # noqa: N803
    """Of each length `draws` paths, or all where there are no more."""
    for length in range(K + 1):
        if math.comb(K, length) <= draws:
            yield from combinations(range(1, K + 1), length)
        else:
            for _ in range(draws):
                yield tuple(sorted((pick.choice(K, length, replace=False) + 1).tolist()))


@dataclass
class _Switch:
    """What a block lets the gradient through."""

    skip: bool = True
    rest: bool = True


class _Gate(torch.autograd.Function):
    """skip + rest; on the way back, what the switch says."""

    @staticmethod
    def forward(ctx: Any, skip: Tensor, rest: Tensor, switch: _Switch) -> Tensor:
        ctx.switch = switch
        return skip + rest

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        nothing = torch.zeros_like(gradient)
        return (gradient if ctx.switch.skip else nothing), (gradient if ctx.switch.rest else nothing), None


@dataclass
class _Gates:
    """A pass forward, ready for many passes back."""

    names: list[str] = field(default_factory=list)
    switches: list[_Switch] = field(default_factory=list)
    outs: list[Tensor] = field(default_factory=list)
    at: Tensor = field(default_factory=lambda: torch.zeros(()))
    value: Tensor = field(default_factory=lambda: torch.zeros(()))

    def gradient(self, path: tuple[int, ...] | None) -> Tensor:
        """One term of eq. 2; None is the whole gradient."""
        for k, switch in enumerate(self.switches, 1):
            switch.skip, switch.rest = path is None or k not in path, path is None or k in path
        (term,) = torch.autograd.grad(self.value, self.at, retain_graph=True, allow_unused=True)
        return torch.zeros_like(self.at) if term is None else term.detach()


@contextmanager
def _gated(
    model: nn.Module, rows: Tensor, blocks: Blocks | None, objective: Objective | None, start: int
) -> Iterator[_Gates]:
    """The model's pass forward in float64, with a gate at each call of a block."""
    parts = blocks_of(model, blocks)
    gates = _Gates()

    def gate(name: str, skip: Tensor, out: Tensor) -> Tensor:
        switch = _Switch()
        through = _Gate.apply(skip, out - skip, switch)
        gates.names.append(name)
        gates.switches.append(switch)
        gates.outs.append(through)
        return through.clone()  # out of reach of in-place changes

    with exactly(model) as f, torch.enable_grad():
        x = rows.detach().double().cpu().requires_grad_()
        with watched(parts, gate):
            out = f(x)
        gates.value = out.sum() if objective is None else objective(out).sum()
        if not 0 <= start <= len(gates.outs):
            raise UserError(
                "start must be 0 or the number of a block",
                got=f"start={start}, {counted(len(gates.outs), 'block')}",
                do="Pass start=0",
            )
        gates.at = x if start == 0 else gates.outs[start - 1]
        yield gates
