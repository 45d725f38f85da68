"""What kind of network a model is, in the words of the textbook.

    shallow           one hidden layer           deep              several of them
    MLP               at least one               fully connected   every unit reads every unit of the layer before it
    feed-forward      no unit reads what depends on itself
    depth K           number of hidden layers    width             units of the widest
    capacity          units in all hidden layers together

A network without hidden layer is neither shallow nor deep.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from leadline.errors import UserError
from leadline.models.chain import chain
from leadline.models.mlp import MLP
from leadline.models.residual import Residual

_RECURRENT = (nn.RNNBase, nn.RNNCellBase)


@dataclass(frozen=True)
class Kind:
    """Args:
    hidden: width of each hidden layer.
    feed_forward: whether the graph of connections has no cycle.
    """

    hidden: tuple[int, ...]
    feed_forward: bool = True
    fully_connected: bool = True

    @property
    def shallow(self) -> bool:
        return len(self.hidden) == 1

    @property
    def deep(self) -> bool:
        return len(self.hidden) > 1

    @property
    def mlp(self) -> bool:
        return self.feed_forward and self.fully_connected and bool(self.hidden)

    @property
    def depth(self) -> int:
        return len(self.hidden)

    @property
    def width(self) -> int:
        return max(self.hidden, default=0)

    @property
    def capacity(self) -> int:
        return sum(self.hidden)


def kind(model: nn.Module) -> Kind:
    """Which words fit a model. Maps with nothing between them count as one, so a composition is as deep as its fusion.

    >>> kind(MLP(40, (100, 50), 10)).deep, kind(MLP(40, (100, 50), 10)).capacity
    (True, 150)
    """
    recurrent = [m for m in model.modules() if isinstance(m, _RECURRENT)]
    if recurrent:
        return Kind(tuple(m.hidden_size for m in recurrent), feed_forward=False, fully_connected=False)
    if isinstance(model, (MLP, Residual)):
        return Kind(model.hidden)
    try:
        links = chain(model)
    except UserError as error:
        raise UserError("kind knows fully connected and recurrent networks", got=error.got, do=error.do) from None
    bends = [not isinstance(a, nn.Identity) for a in links.activations]
    return Kind(tuple(width for width, bend in zip(links.hidden, bends, strict=True) if bend))
