"""Two recurrent layers on one row, one of them from its end (Schuster and Paliwal, 1997).

    y_t = [f(x_1 … x_t);  g(x_n, x_{n-1} … x_t)]           n the row's own length                (1)

Each row is turned around by its own length, so that its padding stays at the end: the second layer begins with the last
step that is there. Not for predicting the next step, which the second layer has seen.

Notation   f -> ahead;  g -> back
Shapes     x (B, T, D) -> (B, T, D'_f + D'_g);  state that of f, then that of g;  there (B, T)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.steps_there import State, order_of, put_back, taken


class Bidirectional(nn.Module):
    """Args:
        ahead: a recurrent layer.
        back: another of its kind, which gets the steps in reverse.

    >>> from leadline.layers.gru import GRU
    >>> layer = Bidirectional(GRU(3, 5), GRU(3, 5))
    >>> layer(torch.zeros(2, 7, 3))[0].shape
    torch.Size([2, 7, 10])
    """

    def __init__(self, ahead: nn.Module, back: nn.Module):
        super().__init__()
        if type(ahead) is not type(back) or ahead.dim != back.dim:
            kinds = (f"{type(layer).__name__} of dim={layer.dim}" for layer in (ahead, back))
            raise UserError(
                "both directions must be layers of one kind that read the same width",
                got=" and ".join(kinds),
                do="Build both alike",
            )
        self.ahead, self.back, self.dim = ahead, back, ahead.dim
        self.dim_output = ahead.dim_output + back.dim_output  # type: ignore[operator]

    def forward(self, x: Tensor, state: State | None = None, there: Tensor | None = None) -> tuple[Tensor, State]:
        """Every step in both directions; the state ahead is that after the last step, the state back that after the
        first. A state that is given parts in two halves.
        """
        half = None if state is None else len(state) // 2
        first, second = (None, None) if state is None else (state[:half], state[half:])
        y, ahead = self.ahead(x, first, there)
        if there is None:
            z, back = self.back(x.flip(1), second)
            return torch.cat([y, z.flip(1)], -1), (*ahead, *back)
        order = turned(there)
        z, back = self.back(taken(x, order), second, there.gather(1, order))
        return torch.cat([y, put_back(z, order, there)], -1), (*ahead, *back)


def turned(there: Tensor) -> Tensor:
    """The steps of each row that are there from the last to the first, then the others, (B, T).

    >>> turned(torch.tensor([[True, True, False], [True, True, True]])).tolist()
    [[1, 0, 2], [2, 1, 0]]
    """
    order, count = order_of(there), there.sum(1, keepdim=True)
    place = torch.arange(there.shape[1], device=there.device)
    return order.gather(1, torch.where(place < count, count - 1 - place, place))
