"""First weights for residual networks without normalisation: every block begins as the identity, or close to it.

    h_l = h_{l-1} + α_l f_l(h_{l-1})           l = 1 … L,   m_l maps in f_l                                      (1)

    fixup      the last map of f_l and the model's last map are 0, the others He's times L^(-1/(2 m_l - 2))      (2)
               where m_l = 1, He's / L instead
    skipinit   α_l = 0, all maps He's;   skipinit(a): α_l = a, such as 1/√L                                      (3)

By (2) the first step of gradient descent changes the function by an amount that does not grow with L: the last maps
alone move, each by a gradient of size Π of the other scales, and L of them add up to L · L^(-1). A block of one map
that ends in a ReLU cannot begin at 0, where the slope of the ReLU is 0 too; its outputs are not negative, so that L of
them add up instead of cancelling, and /L keeps the sum.

Which maps are in f_l is what the modules declare: see `leadline.init.branches`. The model's last map is the last in the
order of its modules, where that lies in no branch.

Papers   Zhang et al. 2019 (2), who also put a bias before and a scalar after each map: those are layers, not first
         weights, and a declared scalar is set to 1.  De and Smith 2020 (3)
"""

from __future__ import annotations

import torch
from torch import nn

from leadline.init.branches import need_branches
from leadline.init.maps import maps
from leadline.init.scaled import he


def fixup(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """
    >>> from leadline.models import MLP
    >>> net = MLP(4, (16,) * 64, 1, activation="relu", p_drop=0, residual=True)
    >>> fixup(net, torch.Generator().manual_seed(0))
    >>> net.head.weight.abs().max().item()
    0.0
    """
    found = need_branches(model, "fixup")
    he(model, generator)
    inside: set[nn.Module] = set()
    for branch in found:
        inside |= {one.module for one in branch.maps}
        m = len(branch.maps)
        for place, one in enumerate(branch.maps):
            last = m > 1 and place == m - 1
            one.scale(0.0 if last else len(found) ** (-1.0 if m == 1 else -1 / (2 * m - 2)))  # eq. 2
        if branch.scale is not None:
            nn.init.ones_(branch.scale)
    head = maps(model)[-1]
    if head.module not in inside:
        head.scale(0.0)


def skipinit(model: nn.Module, generator: torch.Generator | None = None, scale: float = 0.0) -> None:
    """
    >>> from leadline.layers import Skip
    >>> net = nn.Sequential(nn.Linear(4, 4), Skip(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))))
    >>> skipinit(net, torch.Generator().manual_seed(0))
    >>> x = torch.randn(3, 4)
    >>> bool((net(x) == net[0](x)).all())
    True
    """
    found = need_branches(model, "skipinit", scaled=True)
    he(model, generator)
    for branch in found:
        if branch.scale is not None:
            nn.init.constant_(branch.scale, scale)  # eq. 3
