"""The fully connected network of the same sizes as a convolutional one.

    h_k = a(N(β_k + Ω_k h_{k-1})),      Ω_k (c_k T_k, c_{k-1} T_{k-1})        every unit reads every unit        (1)

A layer of c_k channels at T_k positions becomes one of c_k T_k units. The twin can compute all that the convolutional
network can, with many more weights: its matrices need only be sparse and tied. What it lacks is the knowledge that
one position is like another.

Textbook   for the network of 2,050 parameters it is 40 - 285 - 135 - 60 - 10 with 59,065; the book prints 150,185
"""

from __future__ import annotations

from leadline.errors import UserError
from leadline.models.conv_net_1d import ConvNet1D
from leadline.models.mlp import MLP


def dense_twin(model: ConvNet1D) -> MLP:
    """An MLP with the sizes, the normalisation and the dropout of `model`, with first weights of its own.

    >>> book = ConvNet1D(40, 10, 1, (15, 15, 15), (2, 2, 2), kernel=3, padding="valid", norm="none", p_drop=0.0)
    >>> dense_twin(book).hidden, sum(p.numel() for p in dense_twin(book).parameters())
    ((285, 135, 60), 59065)
    """
    if model.norm == "instance":
        raise UserError("a dense twin must have a norm that MLP has", got="norm='instance'", do="Take another norm")
    hidden = [width * length for width, length in model.sizes]
    return MLP(model.channels * model.dim_input, hidden, model.dim_output, "relu", model.norm, model.p_drop)
