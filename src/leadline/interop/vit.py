"""ViT as transformers keeps it: ViTForImageClassification, and ViTModel without its head."""

from __future__ import annotations

from typing import Any

from leadline.errors import CheckpointError, UserError
from leadline.interop.fixed import both, check_fixed, labels, num_labels, square
from leadline.interop.place import Names, affine, query_key_value, reshaped
from leadline.models.vit import ViT

MODEL = ViT
PREFIX = "vit."
READ = ("ViTForImageClassification", "ViTModel")
SPARE = ("vit.pooler.*", "vit.embeddings.mask_token")


def config_of(theirs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of our constructor.

    >>> theirs = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    >>> made = config_of({**theirs, "image_size": 8, "patch_size": 4, "num_channels": 3})
    >>> made["size"], made["dim_output"]
    ((8, 8), 2)
    """
    check_fixed("ViT", theirs, hidden_act="gelu", qkv_bias=True, attention_probs_dropout_prob=0.0)
    size, patch = both(theirs["image_size"]), square("ViT", "patch_size", theirs["patch_size"])
    if size[0] % patch or size[1] % patch:
        raise CheckpointError(
            "ViT: patches must fill the picture",
            got=f"patch_size={patch}, image_size={list(size)} in config.json",
            do="Take another checkpoint; theirs leaves the rest of the picture out, ours does not",
        )
    return {
        "channels": theirs["num_channels"],
        "size": size,
        "dim_output": num_labels(theirs),
        "patch": patch,
        "dim": theirs["hidden_size"],
        "num_layers": theirs["num_hidden_layers"],
        "num_heads": theirs["num_attention_heads"],
        "dim_hidden": theirs["intermediate_size"],
        "p_drop": float(theirs.get("hidden_dropout_prob", 0.0)),
        "eps": theirs.get("layer_norm_eps", 1e-12),
    }


def hf_config_of(model: ViT) -> dict[str, Any]:
    """Their config.json of a model.

    >>> hf_config_of(ViT.tiny())["image_size"]
    8
    """
    if model.pool != "cls":
        raise UserError(
            "ViT: pool must be cls for transformers to read it", got="pool='mean'", do="Keep it in a run's folder"
        )
    rows, columns = model.size
    if rows % model.patch or columns % model.patch:
        raise UserError(
            "ViT: patches must fill the picture for transformers to read it",
            got=f"patch={model.patch}, size={model.size}",
            do="Keep it in a run's folder",
        )
    return {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "num_channels": model.channels,
        "image_size": rows if rows == columns else [rows, columns],
        "patch_size": model.patch,
        "hidden_size": model.dim,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "intermediate_size": model.dim_hidden or 4 * model.dim,
        "hidden_act": "gelu",
        "hidden_dropout_prob": model.p_drop,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": model.eps,
        "qkv_bias": True,
        **labels(model.dim_output),
    }


def names(model: ViT) -> Names:
    """Our name of each tensor -> theirs.

    >>> names(ViT.tiny())["head.weight"]
    'classifier.weight'
    """
    shape = tuple(model.position.shape)
    found: Names = {
        "class_token": "vit.embeddings.cls_token",
        "position": reshaped("vit.embeddings.position_embeddings", shape, (1, *shape)),
        **affine("enter.map", "vit.embeddings.patch_embeddings.projection"),
        **affine("norm", "vit.layernorm"),
        **affine("head", "classifier"),
    }
    for layer in range(model.num_layers):
        ours, theirs = f"blocks.{layer}", f"vit.encoder.layer.{layer}"
        found |= query_key_value(f"{ours}.attention.branch", f"{theirs}.attention.attention")
        found |= affine(f"{ours}.attention.branch.out", f"{theirs}.attention.output.dense")
        found |= affine(f"{ours}.attention.norm", f"{theirs}.layernorm_before")
        found |= affine(f"{ours}.feed_forward.branch.widen", f"{theirs}.intermediate.dense")
        found |= affine(f"{ours}.feed_forward.branch.narrow", f"{theirs}.output.dense")
        found |= affine(f"{ours}.feed_forward.norm", f"{theirs}.layernorm_after")
    return found
