"""Swin as transformers keeps it: SwinForImageClassification, and SwinModel without its head."""

from __future__ import annotations

from typing import Any

from leadline.interop.fixed import both, check_fixed, labels, num_labels, square
from leadline.interop.place import Names, affine, query_key_value
from leadline.layers.patches import Merging
from leadline.models.swin import Swin

MODEL = Swin
PREFIX = "swin."
READ = ("SwinForImageClassification", "SwinModel")
SPARE = ("*.relative_position_index", "swin.embeddings.mask_token")

_FIXED = {"hidden_act": "gelu", "qkv_bias": True, "attention_probs_dropout_prob": 0.0, "use_absolute_embeddings": False}


def config_of(theirs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of our constructor.

    >>> theirs = {"embed_dim": 8, "depths": [2, 2], "num_heads": [1, 2], "window_size": 4, "image_size": 32}
    >>> config_of({**theirs, "patch_size": 2, "num_channels": 3})["stages"]
    [2, 2]
    """
    check_fixed("Swin", theirs, **_FIXED, layer_norm_eps=1e-5)
    return {
        "channels": theirs["num_channels"],
        "size": both(theirs["image_size"]),
        "dim_output": num_labels(theirs),
        "patch": square("Swin", "patch_size", theirs["patch_size"]),
        "dim": theirs["embed_dim"],
        "stages": theirs["depths"],
        "num_heads": theirs["num_heads"],
        "window": theirs["window_size"],
        "widening": theirs.get("mlp_ratio", 4.0),
        "p_drop": float(theirs.get("hidden_dropout_prob", 0.0)),
    }


def hf_config_of(model: Swin) -> dict[str, Any]:
    """Their config.json of a model.

    >>> hf_config_of(Swin.tiny())["depths"]
    [2, 1]
    """
    rows, columns = model.size
    return {
        "architectures": ["SwinForImageClassification"],
        "model_type": "swin",
        "num_channels": model.channels,
        "image_size": rows if rows == columns else [rows, columns],
        "patch_size": model.patch,
        "embed_dim": model.dim,
        "depths": list(model.stages),
        "num_heads": list(model.num_heads),
        "window_size": model.window,
        "mlp_ratio": model.widening,
        "hidden_dropout_prob": model.p_drop,
        "drop_path_rate": 0.0,
        **_FIXED,
        **labels(model.dim_output),
    }


def names(model: Swin) -> Names:
    """Our name of each tensor -> theirs.

    >>> names(Swin.tiny())["body.0.2.map.weight"]
    'swin.encoder.layers.0.downsample.reduction.weight'
    """
    found: Names = {
        **affine("enter.map", "swin.embeddings.patch_embeddings.projection"),
        **affine("enter_norm", "swin.embeddings.norm"),
        **affine("norm", "swin.layernorm"),
        **affine("head", "classifier"),
    }
    for s, stage in enumerate(model.body):
        for k, part in enumerate(stage.children()):
            ours, theirs = f"body.{s}.{k}", f"swin.encoder.layers.{s}.blocks.{k}"
            if isinstance(part, Merging):
                down = f"swin.encoder.layers.{s}.downsample"
                found |= affine(f"{ours}.norm", f"{down}.norm")
                found[f"{ours}.map.weight"] = f"{down}.reduction.weight"
                continue
            found[f"{ours}.attention.branch.offsets"] = f"{theirs}.attention.self.relative_position_bias_table"
            found |= query_key_value(f"{ours}.attention.branch.attention", f"{theirs}.attention.self")
            found |= affine(f"{ours}.attention.branch.attention.out", f"{theirs}.attention.output.dense")
            found |= affine(f"{ours}.attention.norm", f"{theirs}.layernorm_before")
            found |= affine(f"{ours}.feed_forward.branch.widen", f"{theirs}.intermediate.dense")
            found |= affine(f"{ours}.feed_forward.branch.narrow", f"{theirs}.output.dense")
            found |= affine(f"{ours}.feed_forward.norm", f"{theirs}.layernorm_after")
    return found
