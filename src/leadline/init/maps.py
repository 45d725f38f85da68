"""The weights that first weights are drawn for: every matrix and kernel of a module, block by block.

    z = W h,   W (out, in),   fan_in = in,   fan_out = out                                         (1)
    a kernel (out, in, *size):   fan_in = in · Π size,   fan_out = out · Π size                    (2)

A block is a part of a weight that acts as one matrix or kernel, with the outputs on its first axis: a linear map is
one block, a convolution one for each of its groups, attention's joint projection three, a recurrent layer one for each
gate. The fans of a block, as torch counts them, are then the true number of values that an output reads and that an
input reaches, whatever the order of the axes in the module; the stride of a convolution is not counted.

Embeddings, scales of normalisations and parameters of your own making are not in the list. Neither are frozen weights,
which somebody froze because of what they hold. A weight that two modules share is listed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils import parametrize

from leadline.errors import UserError

Fill = Callable[[Tensor], object]


@dataclass(frozen=True, eq=False)
class Map:
    """Args:
    path: of the module in the model; `module` the module; `name` of the weight in it.
    biases: names of the biases that belong to it.
    """

    path: str
    module: nn.Module
    name: str
    biases: tuple[str, ...] = ()

    @property
    def weight(self) -> Tensor:
        return getattr(self.module, self.name)

    def blocks(self) -> list[Tensor]:
        """The parts of the weight that act as one matrix or kernel each, (out, in, *size); views where it is plain."""
        return _blocks(self.module, self.name, self.weight.detach())

    @torch.no_grad()
    def draw(self, fill: Fill, generator: torch.Generator | None = None) -> None:
        """Overwrite each block by what `fill` writes into an empty tensor of its shape; biases become 0."""
        weight = self.weight.detach()
        computed = parametrize.is_parametrized(self.module, self.name)
        whole = weight.clone() if computed else weight
        device = weight.device if generator is None else generator.device
        for block in _blocks(self.module, self.name, whole):
            fresh = torch.empty(block.shape, dtype=block.dtype, device=device)
            fill(fresh)
            block.copy_(fresh)
        if computed:
            setattr(self.module, self.name, whole)
        for name in self.biases:
            bias = getattr(self.module, name)
            if bias is not None and bias.requires_grad:
                bias.zero_()

    @torch.no_grad()
    def scale(self, factor: float | Tensor) -> None:
        """Multiply the weight."""
        if parametrize.is_parametrized(self.module, self.name):
            setattr(self.module, self.name, self.weight.detach() * factor)
        else:
            self.weight.mul_(factor)


def maps(model: nn.Module) -> list[Map]:
    """Every map of the model whose weight may be drawn, in the order of its modules.

    >>> [(m.path, [tuple(b.shape) for b in m.blocks()]) for m in maps(nn.Sequential(nn.Conv1d(4, 6, 3, groups=2)))]
    [('0', [(3, 2, 3), (3, 2, 3)])]
    """
    found, seen = [], set()
    for path, module in model.named_modules():
        for name, biases in _weights(module):
            weight = getattr(module, name, None)
            if weight is None or id(weight) in seen or not weight.requires_grad:
                continue
            if isinstance(weight, UninitializedParameter):
                raise UserError(
                    "a lazy layer must know its size before its first weights are drawn",
                    got=f"{path or 'the model'} ({type(module).__name__}), which has seen no row",
                    do="Send one batch through the model first",
                )
            seen.add(id(weight))
            found.append(Map(path, module, name, biases))
    return found


def need_maps(model: nn.Module) -> list[Map]:
    """`maps`, or the message that there are none."""
    found = maps(model)
    if not found:
        raise UserError(
            "first weights are drawn for linear maps, convolutions, attention and recurrent layers",
            got=f"{type(model).__name__}, which has none that can be trained",
            do="Leave init at own",
        )
    return found


def _weights(module: nn.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names of the weights of a module, each with its biases."""
    if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
        yield "weight", ("bias",)
    elif isinstance(module, nn.MultiheadAttention):
        yield "in_proj_weight", ("in_proj_bias",)
        for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
            yield name, ()
    elif isinstance(module, nn.RNNBase):
        for name in module._flat_weights_names:
            if name.startswith("weight"):
                yield name, (name.replace("weight", "bias"),) if module.bias else ()
    elif isinstance(module, nn.RNNCellBase):
        for side in ("ih", "hh"):
            yield f"weight_{side}", (f"bias_{side}",) if module.bias else ()


def _blocks(module: nn.Module, name: str, weight: Tensor) -> list[Tensor]:
    if isinstance(module, nn.modules.conv._ConvTransposeNd):  # stored (in, out / groups, *size)
        return [part.transpose(0, 1) for part in weight.chunk(module.groups)]
    if isinstance(module, nn.modules.conv._ConvNd):
        return list(weight.chunk(module.groups))
    if name == "in_proj_weight":  # queries, keys, values
        return list(weight.chunk(3))
    if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
        gates = {"LSTM": 4, "GRU": 3}.get(type(module).__name__.removesuffix("Cell"), 1)
        return list(weight.chunk(gates))
    return [weight]
