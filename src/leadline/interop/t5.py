"""T5 as Hugging Face keeps it: names of tensors, and what its config.json says.

Versions 1.0 (relu, tied) and 1.1 (gated, not tied) are known. A config says nothing of lengths, since positions are
relative: 512 words each are taken, as in training; pass len_source and length to `load` for others.
"""

from __future__ import annotations

from typing import Any

from leadline.errors import UserError
from leadline.interop.fixed import check_fixed
from leadline.interop.place import Names
from leadline.models.t5 import EPS, T5

MODEL = T5
#: the one matrix of embeddings under its other names, and a table that nothing reads
SPARE = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "lm_head.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
)
#: an untied head that is not there is the embeddings, as in files of version 1.1 that were never trained apart
ALIASES = {"lm_head.weight": "shared.weight"}
READ = ("T5ForConditionalGeneration", "T5Model")
_PROJECTIONS = {"relu": False, "gated-gelu": True}
_LENGTH = 512


def config_of(theirs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of T5 out of their config.

    >>> config_of({"vocab_size": 100, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2})["dim"]
    8
    """
    projection, end = theirs.get("feed_forward_proj", "relu"), theirs.get("eos_token_id", 1)
    check_fixed("T5", theirs, layer_norm_epsilon=EPS)
    if projection not in _PROJECTIONS:
        raise UserError(
            f"T5: feed_forward_proj must be {' or '.join(_PROJECTIONS)}",
            got=f"feed_forward_proj={projection!r} in config.json",
            do="Take a T5 of version 1.0 or 1.1",
        )
    if isinstance(end, list):
        raise UserError(
            "T5: eos_token_id must be one number",
            got=f"eos_token_id={end} in config.json",
            do="Write the one that closes targets in their place",
        )
    return {
        "num_tokens": theirs["vocab_size"],
        "length": theirs.get("n_positions", _LENGTH),
        "len_source": theirs.get("n_positions", _LENGTH),
        "dim": theirs["d_model"],
        "num_layers": theirs["num_layers"],
        "num_heads": theirs["num_heads"],
        "dim_head": theirs["d_kv"],
        "dim_hidden": theirs["d_ff"],
        "num_decoder_layers": theirs.get("num_decoder_layers"),
        "gated": _PROJECTIONS[projection],
        # newer files tell the versions apart by the scaling, and call both tied
        "tied": theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings", True)),
        "num_buckets": theirs.get("relative_attention_num_buckets", 32),
        "furthest": theirs.get("relative_attention_max_distance", 128),
        "p_drop": theirs.get("dropout_rate", 0.1),
        "pad": theirs.get("pad_token_id", 0),
        "start": theirs.get("decoder_start_token_id"),
        "end": end,
    }


def hf_config_of(model: T5) -> dict[str, Any]:
    """Their config of a model.

    >>> hf_config_of(T5.tiny())["d_kv"]
    3
    """
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": model.num_tokens,
        "n_positions": max(model.length, model.len_source),
        "d_model": model.dim,
        "d_kv": model.dim_head,
        "d_ff": model.dim_hidden,
        "num_layers": model.num_layers,
        "num_decoder_layers": len(model.decoder),
        "num_heads": model.num_heads,
        "relative_attention_num_buckets": model.num_buckets,
        "relative_attention_max_distance": model.furthest,
        "dropout_rate": model.p_drop,
        "layer_norm_epsilon": EPS,
        "feed_forward_proj": "gated-gelu" if model.gated else "relu",
        "tie_word_embeddings": model.tied,
        "pad_token_id": model.pad,
        "decoder_start_token_id": model.start,
        "eos_token_id": model.end,
    }


def names(model: T5) -> Names:
    """Our name of each tensor -> theirs.

    >>> names(T5.tiny())["encoder_norm.weight"]
    'encoder.final_layer_norm.weight'
    """
    found: Names = {"embed.weight": "shared.weight"}
    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        first = f"{stack}.block.0.layer.0.SelfAttention"
        found[f"{stack}_bias.table.weight"] = f"{first}.relative_attention_bias.weight"
        found[f"{stack}_norm.weight"] = f"{stack}.final_layer_norm.weight"
        for k in range(len(layers)):
            found |= _layer(f"{stack}.{k}", f"{stack}.block.{k}.layer", stack == "decoder", model.gated)
    return found if model.tied else {**found, "head.weight": "lm_head.weight"}


def tied(model: T5) -> dict[str, str]:
    """Copies that a file may hold -> of which tensor.

    >>> sorted(tied(T5.tiny()))[:2]
    ['decoder.embed_tokens.weight', 'encoder.embed_tokens.weight']
    """
    copies = ("encoder.embed_tokens", "decoder.embed_tokens", *(["lm_head"] if model.tied else []))
    return {f"{name}.weight": "shared.weight" for name in copies}


def _layer(ours: str, theirs: str, writes: bool, gated: bool) -> Names:
    last = 2 if writes else 1
    own, thought = f"{theirs}.0.SelfAttention", f"{theirs}.{last}.DenseReluDense"
    wide = tuple(f"{thought}.wi_{part}.weight" for part in "01") if gated else f"{thought}.wi.weight"
    found: Names = {
        f"{ours}.look.branch.query_key_value.weight": tuple(f"{own}.{part}.weight" for part in "qkv"),
        f"{ours}.look.branch.out.weight": f"{own}.o.weight",
        f"{ours}.look.norm.weight": f"{theirs}.0.layer_norm.weight",
        f"{ours}.think.branch.widen.weight": wide,
        f"{ours}.think.branch.narrow.weight": f"{thought}.wo.weight",
        f"{ours}.think.norm.weight": f"{theirs}.{last}.layer_norm.weight",
    }
    if writes:
        other = f"{theirs}.1.EncDecAttention"
        found |= {
            f"{ours}.ask.branch.query.weight": f"{other}.q.weight",
            f"{ours}.ask.branch.key_value.weight": (f"{other}.k.weight", f"{other}.v.weight"),
            f"{ours}.ask.branch.out.weight": f"{other}.o.weight",
            f"{ours}.ask.norm.weight": f"{theirs}.1.layer_norm.weight",
        }
    return found
