"""A recurrent layer whose step is a network of its own: deep transition (Pascanu et al., 2014).

    u_1 = a(U_1 h_{t-1} + V x_t + b_1)                                                          (1)
    u_k = a(U_k u_{k-1} + b_k)               k = 2 … K                                           (2)
    h_t = u_K,     with shortcuts  h_t = u_K + S h_{t-1}                                         (3)

K = 1 is Elman's layer. Each further map makes the step from state to state more flexible, and the way of a gradient
through time longer; the shortcut S gives it a way past them.

Notation   V -> read;  U_k -> deeper[k-1] (b_k with it);  S -> shortcut;  a -> activation
Paper      the shortcut is one linear map around the whole step, where the paper leaves its kind open
Shapes     x (B, T, D) -> (B, T, D');  state (h,), h (B, D');  there (B, T)
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.layers.activation import activation as activation_by_name
from leadline.layers.steps_there import State, check_steps, loop
from leadline.settings import whole


class DeepTransition(nn.Module):
    """Args:
        dim: D.
        dim_output: D', units; D by default.
        num_maps: K, at least 1.
        activation: a name in leadline.layers.activation.ACTIVATIONS.
        shortcut: S.

    >>> import torch
    >>> y, (h,) = DeepTransition(3, 5)(torch.zeros(2, 7, 3))
    >>> y.shape, h.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    unrolled = True

    def __init__(
        self,
        dim: int,
        dim_output: int | None = None,
        num_maps: int = 2,
        activation: str = "tanh",
        shortcut: bool = False,
    ):
        super().__init__()
        self.dim = whole("dim", dim)
        self.dim_output = self.dim if dim_output is None else whole("dim_output", dim_output)
        self.activation = activation_by_name(activation)
        self.read = nn.Linear(self.dim, self.dim_output, bias=False)
        maps = range(whole("num_maps", num_maps))
        self.deeper = nn.ModuleList(nn.Linear(self.dim_output, self.dim_output) for _ in maps)
        self.shortcut = nn.Linear(self.dim_output, self.dim_output, bias=False) if shortcut else None

    def forward(self, x: Tensor, state: State | None = None, there: Tensor | None = None) -> tuple[Tensor, State]:
        """Every step, and the state after the last one that is there."""
        check_steps(self, x, state, there)
        read = self.read(x)  # of all steps at once
        return loop(self._step, read, state or (x.new_zeros(len(x), self.dim_output),), there)

    def _step(self, read: Tensor, state: State) -> State:
        (h,) = state
        first, *others = self.deeper
        u = self.activation(first(h) + read)  # eq. 1
        for map_ in others:
            u = self.activation(map_(u))  # eq. 2
        return (u if self.shortcut is None else u + self.shortcut(h),)  # eq. 3
