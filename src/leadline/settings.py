"""How a run is fitted: every number that decides the result, plain and JSON-able, with its legal range."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from leadline.errors import UnknownName, UserError
from leadline.names import bracketed, suggest


@dataclass(frozen=True)
class Settings:
    """The settings of `fit`. Those that are None or "auto" are resolved before the first step and recorded.

    >>> Settings(epochs=5).epochs
    5
    """

    epochs: int = 100
    """passes over the training split, or parts of them if epoch_steps is given; at least 1"""
    epoch_steps: int | None = None
    """steps of an epoch at most, at least 1: an epoch of a large split is then a part of a pass, and the next one goes
    on where it stopped; None passes over all rows"""
    batch: int = 64
    """examples a step, at least 1"""
    lr: float = 3e-3
    """highest learning rate of the schedule, above 0"""
    optimizer: str = "adamw"
    """update rule: sgd, nesterov, adam, adamw, amsgrad, nadam, radam, rmsprop, adagrad, adadelta, muon, yogi, swats,
    averaged, nesterov_printed, nesterov_ahead, sign, adam_printed, sam, entropy, lbfgs"""
    weight_decay: float = 0.01
    """strength of the pull of the weights towards 0, at least 0"""
    decay_on: str = "all"
    """which weights are pulled: all, or matrices and kernels, which leaves biases and scales of normalisations alone"""
    momentum: float = 0.9
    """momentum of sgd, the nesterovs, averaged, rmsprop, swats, muon and sam, from 0 to below 1"""
    schedule: str = "cosine"
    """how the learning rate goes on after warm-up: constant, cosine, linear, step(epochs, factor), restarts(cycles,
    growth), cyclic(valleys, lowest), inverse(steps, power), one_cycle(rise), which brings its own warm-up"""
    warmup: float = 0.05
    """part of the run in which the learning rate rises, from 0 to below 1"""
    clip: float | None = None
    """largest norm of the gradient, above 0: longer ones are scaled down; None does not clip"""
    regularize: tuple[str, ...] = ()
    """regularisers in order, a number in brackets where one is needed, such as l1(1e-4)"""
    init: str = "own"
    """first weights: own (as the model was built), normal, uniform, lecun, glorot, he, he_out, he_mean, orthogonal,
    delta_orthogonal, lsuv, fixup, skipinit or gradinit, with a number in brackets where one is wanted"""
    init_scale: float = 1.0
    """factor on all first weights of matrices and kernels, above 0"""
    average: str = "none"
    """which average of the weights is validated and kept: none, ema(decay) over steps, or swa(start) over the ends of
    epochs, from that share of the run on"""
    replacement: bool = False
    """draw an epoch's rows with replacement: some come twice, some not at all"""
    carry_state: bool = False
    """a text is read in as many streams as a batch has rows, unshuffled, and the state of a recurrent network goes on
    from batch to batch, without its gradient; in evaluation too"""
    accumulate: int = 1
    """micro-batches a step, at least 1: the same gradient in less memory"""
    recompute: bool = False
    """compute the inside of each block of a transformer again on the way back, instead of keeping it: the same
    gradient in less memory, while a step takes about a third longer"""
    patience: int | None = None
    """epochs without improvement before the run stops, at least 1; None never stops early"""
    validate_every: int = 1
    """epochs between validations, at least 1"""
    seed: int = 0
    """seed for first weights, order and noise, at least 0"""
    precision: str = "auto"
    """float32, float64, tf32 (matrix products in 10 bits), bf16 (mixed), or auto: float32 on a CPU; on a GPU bf16 for
    convolutions and for models above a million weights, else tf32"""
    device: str = "auto"
    """cpu, cuda, mps, or auto"""
    threads: int | None = None
    """CPU threads, at least 1, or processes of a population; None measures which count is faster"""
    compile: str = "auto"
    """on, off, record (on a GPU: steps are launched as one, uncompiled), or auto: compile when the time saved in this
    run exceeds the time of compiling"""

    def __post_init__(self):
        usual = {field.name: field.default for field in fields(self)}
        for name, (first, last) in WHOLE.items():
            if not (getattr(self, name) is None and usual[name] is None):
                object.__setattr__(self, name, whole(name, getattr(self, name), first, last, usual[name]))
        for name, (least, below) in REAL.items():
            if not (getattr(self, name) is None and usual[name] is None):
                value = real(name, getattr(self, name), least, below, above=name in ABOVE, usual=usual[name])
                object.__setattr__(self, name, value)
        words = (self.regularize,) if isinstance(self.regularize, str) else tuple(self.regularize or ())
        object.__setattr__(self, "regularize", words)
        for name in ("replacement", "carry_state", "recompute"):
            if not isinstance(getattr(self, name), bool):
                got = given(name, getattr(self, name))
                raise UserError(f"{name} must be True or False", got=got, do="Pass True or False")
        for name, legal in CHOICES.items():
            value = getattr(self, name)
            if (numbered(name, value)[0] if name in NUMBERS else value) not in legal:
                raise UnknownName(
                    f"{name} must be a known word",
                    got=given(name, value),
                    do=suggest(str(value), [word for word in legal if word != "given"]),
                )

    @classmethod
    def make(cls, **given: Any) -> Settings:
        """Settings from keywords; an unknown one answers with the closest known."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise UnknownName("a setting must be known", got=name, do=suggest(name, known))
        return cls(**given)

    def with_(self, **changes: Any) -> Settings:
        return replace(self, **changes)

    @property
    def config(self) -> dict[str, Any]:
        return {**asdict(self), "regularize": list(self.regularize)}


#: least value of each whole number, and the largest where there is one
WHOLE: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(
        ("epochs", "epoch_steps", "batch", "accumulate", "validate_every", "patience", "threads"), (1, None)
    ),
    "seed": (0, 2**63 - 1),
}
#: least value of each other number, and what it must stay below; those in ABOVE must be more than their least
REAL: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("warmup", "momentum"), (0, 1)),
    **dict.fromkeys(("weight_decay", "lr", "clip", "init_scale"), (0, math.inf)),
}
ABOVE = ("lr", "clip", "init_scale")

CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": (
        *("sgd", "nesterov", "adam", "adamw", "amsgrad", "nadam", "radam", "rmsprop", "adagrad", "adadelta", "muon"),
        *("yogi", "swats", "averaged", "nesterov_printed", "nesterov_ahead", "sign", "adam_printed", "sam", "entropy"),
        *("lbfgs", "given"),
    ),
    "schedule": ("constant", "cosine", "linear", "step", "restarts", "cyclic", "inverse", "one_cycle", "given"),
    "average": ("none", "ema", "swa"),
    "decay_on": ("all", "matrices"),
    "precision": ("auto", "float32", "float64", "tf32", "bf16"),
    "compile": ("auto", "on", "record", "off"),
}

#: numbers in brackets after a word of a setting: name, least, largest, and the usual value. Ends are legal, but for a
#: least of 0
NUMBERS: dict[str, dict[str, tuple[tuple[str, float, float, float], ...]]] = {
    "schedule": {
        "step": (("epochs", 1, math.inf, 10), ("factor", 0, 1, 0.5)),
        "restarts": (("cycles", 1, math.inf, 4), ("growth", 1, math.inf, 1)),
        "cyclic": (("valleys", 1, math.inf, 4), ("lowest", 0, 1, 0.1)),
        "inverse": (("steps", 0, math.inf, 100), ("power", 0.5, 1, 1)),
        "one_cycle": (("rise", 0, 0.9, 0.3),),
    },
    "average": {"ema": (("decay", 0, 0.999999, 0.999),), "swa": (("start", 0, 0.999999, 0.75),)},
}


def numbered(name: str, value: Any) -> tuple[str, tuple[float, ...]]:
    """The word of a setting and the numbers after it, those that are left out at their usual values.

    >>> numbered("schedule", "restarts(3)"), numbered("average", "none")
    (('restarts', (3.0, 1)), ('none', ()))
    """
    word, found = bracketed(str(value), name)
    wanted = NUMBERS[name].get(word, ())
    if word not in CHOICES[name] or (not found and word == "step"):  # whose own meaning, without numbers, is another
        return word, ()
    written = f"{word}({', '.join(f'{usual:g}' for *_, usual in wanted)})" if wanted else word
    if len(found) > len(wanted):
        most = f"at most {len(wanted)} numbers" if len(wanted) > 1 else "one number" if wanted else "no number"
        raise UserError(f"{name} {word} takes {most}", got=given(name, value), do=f"Write {written}")
    for (what, least, most_, _), number in zip(wanted, found, strict=False):
        whole_ = what in ("epochs", "cycles", "valleys")
        if not least <= number <= most_ or (least == 0 and number == 0) or (whole_ and number != int(number)):
            legal = f"above {least:g}" if least == 0 else f"of at least {least:g}"
            legal += f" and at most {most_:g}" if most_ < math.inf else ""
            kind = "a whole number" if whole_ else "a number"
            raise UserError(f"{what} of {name} {word} must be {kind} {legal}", got=f"{value}", do=f"Write {written}")
    return word, (*found, *(usual for *_, usual in wanted[len(found) :]))


def whole(name: str, value: Any, least: int | None = 1, most: int | None = None, usual: Any = None) -> int:
    """`value` as a whole number in its range, or the message that it is not one.

    Args:
        name: of the argument.
        least, most: the range; None is no end.
        usual: a value to propose.

    >>> whole("epochs", "3")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    leadline.errors.UserError: epochs must be a whole number of at least 1. Got epochs='3' (text). Write epochs=3...
    """
    fits = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if fits and (least is None or least <= value) and (most is None or value <= most):
        return int(value)
    if least is None:
        limit = "" if most is None else f" of at most {_power(most)}"
    else:
        limit = f" of at least {least}" if most is None else f" from {least} to {_power(most)}"
    low = fits and least is not None and value < least
    do = f"Pass {least} or more" if low else _proposal(name, value, int, -math.inf if least is None else least, usual)
    raise UserError(f"{name} must be a whole number{limit}", got=given(name, value), do=do)


def real(
    name: str,
    value: Any,
    least: float = -math.inf,
    below: float = math.inf,
    *,
    most: float = math.inf,
    above: bool = False,
    usual: Any = None,
) -> float:
    """`value` as a finite number in its range, or the message that it is not one.

    Args:
        name: of the argument.
        least, below: the range, from `least` to just below `below`.
        most: the range's end where that itself is inside.
        above: `least` itself is outside too.
        usual: a value to propose.

    >>> real("lr", "a", 0, above=True, usual=0.003)
    Traceback (most recent call last):
    leadline.errors.UserError: lr must be a number above 0. Got lr='a' (text). A usual value is lr=0.003.
    >>> real("p", 1, 0, most=1)
    1
    """
    fits = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if fits and math.isfinite(value) and least <= value < below and value <= most and not (above and value == least):
        return value if isinstance(value, (int, float)) else float(value)
    limits = [f"above {least:g}" if above else f"of at least {least:g}"] if least > -math.inf else []
    limits += [f"below {below:g}"] if below < math.inf else []
    limits += [f"at most {most:g}"] if most < math.inf else []
    legal = " ".join(["a" if limits else "a finite", "number", " and ".join(limits)]).strip()
    raise UserError(f"{name} must be {legal}", got=given(name, value), do=_proposal(name, value, float, least, usual))


def truth(name: str, value: Any) -> bool:
    """`value` as true or false, or the message that it is neither; words such as "no" would count as true.

    >>> truth("tied", "no")
    Traceback (most recent call last):
    leadline.errors.UserError: tied must be True or False. Got tied='no' (text). Write tied=True or tied=False.
    """
    if not isinstance(value, bool):
        do = f"Write {name}=True or {name}=False"
        raise UserError(f"{name} must be True or False", got=given(name, value), do=do)
    return value


def texts(name: str, value: Any) -> list[str]:
    """`value` as a list of texts, or the message that it holds something else; a text alone is a list of one.

    >>> texts("stop", "."), texts("stop", ("!", "?"))
    (['.'], ['!', '?'])
    """
    found = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    wrong = [text for text in found if not isinstance(text, str)]
    if wrong:
        raise UserError(
            f"{name} must be text", got=given(name, wrong[0]), do=f"Pass a text as {name}, or a list of texts"
        )
    return found


def given(name: str, value: Any) -> str:
    """An argument as a message quotes it, with what it is where that is the trouble.

    >>> given("epochs", "3"), given("epochs", True), given("epochs", [3]), given("lr", -1.0)
    ("epochs='3' (text)", 'epochs=True (a truth value)', 'epochs=[3] (a list)', 'lr=-1.0')
    """
    names = {str: "text", bool: "a truth value", list: "a list", tuple: "a tuple", dict: "a dictionary"}
    if value is None or (isinstance(value, numbers.Number) and not isinstance(value, bool)):
        return f"{name}={value!r}" if isinstance(value, (int, float, type(None))) else f"{name}={value}"
    text = repr(value)
    kind = type(value)
    what = names.get(kind, f"{'an' if kind.__name__[:1].lower() in 'aeiou' else 'a'} {kind.__name__}")
    return f"{name}={text} ({what})" if len(text) <= 60 and "\n" not in text else f"{name} as {what}"


def _proposal(name: str, value: Any, kind: type, least: float, usual: Any) -> str:
    """What to write instead: the number that was meant, where one can be told."""
    if isinstance(value, str):
        try:
            meant = kind(value)
        except ValueError:
            meant = None
        if meant is not None and math.isfinite(meant) and meant >= least:
            return f"Write {name}={value.strip()}, without quotes"
    elif kind is int and isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value):
        meant = round(max(float(value), least))
        if meant != value and abs(meant) <= 2**53:
            return f"Round it: {name}={meant}"
    if usual is not None:
        return f"A usual value is {name}={usual}"
    return "Leave it out, or write a number in that range" if least > -math.inf else "Leave it out, or write a number"


def _power(most: int) -> str:
    """A limit as it is best known: 2^63 - 1."""
    return f"2^{(most + 1).bit_length() - 1} - 1" if most > 10**6 and most & (most + 1) == 0 else str(most)
