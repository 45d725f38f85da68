"""Activations by name, so that a config can hold them.

    relu        max(z, 0)                                      identity    z
    leaky_relu  z, or s·z below 0            s = 0.01          affine      ψ0 + ψ1 z             ψ0, ψ1 learned
    prelu       the same with s learned      from s = 0.25     square      z²
    crelu       [max(z, 0), max(-z, 0)]      twice as wide     sin         sin z
    elu         z, or s·(e^z - 1) below 0    s = 1             sigmoid     1 / (1 + e^-z)
    selu        λ·elu(z), s and λ such that mean 0 and         tanh        2 sigmoid(2z) - 1
                variance 1 go over into themselves             softplus    log(1 + e^{sz}) / s   s = 1
    gelu        z·Φ(z), Φ of the normal law                    hard_swish  z·clip(z + 3, 0, 6) / 6
    silu        z·sigmoid(z)                                   heaviside   1 from 0 on, else 0
    swish       z·sigmoid(s z), s learned    from s = 1        rect        1 on [0, 1], else 0
    gelu_tanh   gelu by way of tanh, within 5e-4: GPT-2's

A number in brackets sets s: `leaky_relu(0.1)`, `elu(0.5)`, `swish(1.4)`. The gradient of heaviside and rect is 0
everywhere, so nothing below such a layer learns. Without a nonlinearity (identity, affine) a whole network is one
affine map, and with a polynomial one (square) it is a polynomial.
"""

from __future__ import annotations

import math
import re

from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.crelu import ConcatenatedReLU
from leadline.layers.gelu_tanh import TanhGELU
from leadline.layers.heaviside import Heaviside, Rect
from leadline.layers.polynomial import Affine, Square
from leadline.layers.sine import Sine
from leadline.layers.swish import Swish
from leadline.names import lookup

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "identity": nn.Identity,
    "prelu": nn.PReLU,
    "crelu": ConcatenatedReLU,
    "selu": nn.SELU,
    "swish": Swish,
    "hard_swish": nn.Hardswish,
    "heaviside": Heaviside,
    "rect": Rect,
    "sin": Sine,
    "square": Square,
    "affine": Affine,
    "gelu_tanh": TanhGELU,
}

#: the argument that a number in brackets sets
_NUMBERS = {"leaky_relu": "negative_slope", "prelu": "init", "elu": "alpha", "softplus": "beta", "swish": "beta"}

_WORD = re.compile(r"\s*(?P<name>[^()]*?)\s*(?:\((?P<number>[^()]*)\))?\s*")


def activation(name: str) -> nn.Module:
    """A new activation module.

    >>> activation("ReLU")
    ReLU()
    >>> activation("leaky_relu(0.25)")
    LeakyReLU(negative_slope=0.25)
    """
    parts = _WORD.fullmatch(str(name))
    word, number = (parts["name"], parts["number"]) if parts else (str(name), None)
    made = lookup(word, ACTIVATIONS, "activation")
    if number is None:
        return made()
    argument = _NUMBERS.get(word.lower())
    if argument is None:
        raise UserError(
            f"activation {word} takes no number",
            got=f"activation {name!r}",
            do=f"Write {word}; a number is taken by {', '.join(_NUMBERS)}",
        )
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf") or (word.lower() == "softplus" and value <= 0):
        least = "number above 0" if word.lower() == "softplus" else "finite number"
        raise UserError(
            f"activation {word} needs a {least} in its brackets", got=f"activation {name!r}", do=f"Write {word}(0.5)"
        )
    return made(**{argument: value})


def widening(module: nn.Module) -> int:
    """By how much an activation multiplies the number of units.

    >>> widening(activation("relu")), widening(activation("crelu"))
    (1, 2)
    """
    return module.widens if isinstance(module, ConcatenatedReLU) else 1


def at_zero(module: nn.Module) -> float | Tensor:
    """a[0]; where it is learned (affine), the parameter that holds it.

    >>> at_zero(activation("tanh")), at_zero(activation("sigmoid"))
    (0.0, 0.5)
    """
    if isinstance(module, Affine):
        return module.psi0
    if isinstance(module, nn.Softplus):
        return math.log(2) / module.beta
    return 0.5 if isinstance(module, nn.Sigmoid) else float(isinstance(module, (Heaviside, Rect)))


def lifted(module: nn.Module) -> bool:
    """Whether a[0] is not 0, or may be learned so.

    >>> lifted(activation("tanh")), lifted(activation("sigmoid"))
    (False, True)
    """
    rest = at_zero(module)
    return isinstance(rest, Tensor) or rest != 0


def name_of(module: nn.Module) -> str | None:
    """The name under which `activation` builds such a module, or None; what it has learned is not in the name.

    >>> name_of(nn.ELU(0.5)), name_of(nn.Softmax())
    ('elu(0.5)', None)
    """
    name = next((word for word, kind in ACTIVATIONS.items() if type(module) is kind), None)
    if name in ("leaky_relu", "elu", "softplus"):
        number = getattr(module, _NUMBERS[name])
        name = name if number == getattr(activation(name), _NUMBERS[name]) else f"{name}({number})"
    # an option that has no name here, such as another form of gelu, shows in the text of the module
    same = name is not None and repr(activation(name)) == re.sub(r",? ?inplace=True", "", repr(module))
    return name if same else None
