"""Settings of someone else's config that have one value here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.errors import CheckpointError, UserError
from leadline.settings import texts


def check_fixed(owner: str, config: Mapping[str, Any], **wanted: Any) -> None:
    """Refuse a config in which a setting has another value than ours; one that is left out has it.

    >>> check_fixed("ViT", {"qkv_bias": True}, qkv_bias=True, hidden_act="gelu")
    """
    for name, value in wanted.items():
        if config.get(name, value) != value:
            raise CheckpointError(
                f"{owner}: {name} must be {value!r}, as it always is here",
                got=f"{name}={config[name]!r} in config.json",
                do="Take another checkpoint of this family",
            )


def square(owner: str, name: str, value: Any) -> int:
    """A number, or two that are equal.

    >>> square("ViT", "patch_size", [16, 16])
    16
    """
    sides = tuple(value) if isinstance(value, (list, tuple)) else (value, value)
    if len(set(sides)) != 1:
        raise CheckpointError(
            f"{owner}: {name} must be as high as wide",
            got=f"{name}={value!r} in config.json",
            do="Take another checkpoint",
        )
    return int(sides[0])


def both(value: Any) -> tuple[int, int]:
    """Rows and columns, of a number or of two.

    >>> both(224), both([224, 192])
    ((224, 224), (224, 192))
    """
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))


def num_labels(config: Mapping[str, Any]) -> int:
    """Classes that a config names, or the two that it means when it names none.

    >>> num_labels({"id2label": {"0": "cat", "1": "dog", "2": "eel"}}), num_labels({})
    (3, 2)
    """
    return len(config.get("id2label") or {}) or int(config.get("num_labels", 2))


def labels(count: int, classes: Sequence[str] | None = None) -> dict[str, Any]:
    """What a config says of `count` classes.

    Args:
        classes: their names; those of transformers by default.

    >>> labels(2)["label2id"], labels(2, ("cat", "dog"))["id2label"]
    ({'LABEL_0': 0, 'LABEL_1': 1}, {'0': 'cat', '1': 'dog'})
    """
    names = [f"LABEL_{k}" for k in range(count)] if classes is None else texts("classes", classes)
    if len(names) != count or len(set(names)) != count:
        raise UserError(
            f"classes must be the names of {count} classes, each another",
            got=f"{len(names)} names, {len(set(names))} of them different",
            do="Pass one for each output of the head, such as data.target.classes",
        )
    return {
        "id2label": {str(k): name for k, name in enumerate(names)},
        "label2id": {name: k for k, name in enumerate(names)},
    }
