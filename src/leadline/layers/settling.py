"""States of -1 and +1 that are swept until they come to rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Recall:
    """Where states came to rest.

    Args:
        state: (B, n) of -1 and +1.
        field: eq. 2 of the last sweep; where a row is settled, the field of its state.
        settled: rows that are fixed points, (B,).
        cycle: rows that go back and forth between two states, (B,); synchronous updates alone can do that.
        sweeps: how many were made.
        energies: (sweeps + 1, B) where a trace was asked for.
    """

    state: Tensor
    field: Tensor
    settled: Tensor
    cycle: Tensor
    sweeps: int
    energies: Tensor | None = None


def settle(
    s: Tensor,
    sweep: Callable[[Tensor, int], tuple[Tensor, Tensor]],
    energy: Callable[[Tensor], Tensor],
    max_sweeps: int,
    trace: bool = False,
) -> Recall:
    """Sweep until each row is a fixed point or repeats the state before the last; rows at rest are swept no more.

    Args:
        sweep: from states and the sweep's number to new states and their fields.
        energy: of states, for the trace.
    """
    state, field = s.clone(), torch.empty_like(s)
    settled, cycle = (torch.zeros(len(s), dtype=torch.bool, device=s.device) for _ in range(2))
    active = torch.arange(len(s), device=s.device)
    now, before = s, torch.zeros_like(s)
    energies, count = [energy(s)] if trace else [], 0
    while count < max_sweeps and len(active):
        new, h = sweep(now, count)
        count += 1
        fixed, back = (new == now).all(1), (new == before).all(1)
        state[active], field[active] = new, h
        settled[active], cycle[active] = fixed, back & ~fixed
        going = ~(fixed | back)
        before, now, active = now[going], new[going], active[going]
        if trace:
            energies.append(energy(state))
    return Recall(state, field, settled, cycle, count, torch.stack(energies) if trace else None)
