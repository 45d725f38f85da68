"""How large the transformers of the chapter are, counted without making them."""

from __future__ import annotations

import torch
from torch import nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves, Points
from leadline.models import BERT, ViT
from leadline.models.bert import SIZES as BERTS
from leadline.models.gpt import SIZES as GPTS
from leadline.models.gpt import count
from leadline.models.vit import SIZES as VITS

_UDL = "Understanding Deep Learning"
_VITS = ("B/16", "H/14")


@claim(
    "transformer-sizes",
    "BERT has about 340 million parameters and GPT-3 has 175 billion; 37 words of width 1024 are 37,888 numbers, and "
    "30,000 words of it 30.7 million",
    f"{_UDL}, sections 12.1, 12.5.2, 12.6 and 12.7.4; Dosovitskiy et al. 2021 for the Vision Transformer",
    misprint="about 340 million is the authors' own round number; what the section describes has 333.6 million, with "
    "the parts it leaves out 335. Width of the networks inside GPT-3 and its vocabulary are not in the text: 4 D and "
    "50,257 as in the papers",
)
def transformer_sizes(full: bool) -> Evidence:
    with torch.device("meta"):
        bert = BERT(30_000, 512, 30_000, **BERTS["large"])
        described = _count(bert.tokens) + _count(bert.positions) + _count(bert.layers)
        vits = {name: _count(ViT(3, (224, 224), 1000, **size)) for name, size in VITS.items() if full or name in _VITS}
        berts = {name: _count(BERT(30_000, 512, 30_000, **size)) for name, size in BERTS.items()}
    names = sorted(GPTS, key=lambda name: _blocks(GPTS[name])) if full else ["gpt2", "gpt2-medium", "gpt3"]
    gpts = {name: count(**GPTS[name]) for name in names}
    by_hand = {name: _blocks(GPTS[name]) for name in names}
    ends = (float(min(by_hand.values())), float(max(by_hand.values())))
    view = Curves(
        "How large transformers are", "12 L D², weights of the layers alone", "parameters",
        {"GPT": (tuple(map(float, by_hand.values())), tuple(map(float, gpts.values()))),
         "BERT": _beside(BERTS, berts), "ViT": _beside(VITS, vits)},
        {"nothing but layers": (ends, ends)}, log="xy", joined=False,
    )  # fmt: skip
    return Evidence(
        (
            Check("words and width of the passage of section 12.1", 37 * 1024, 37_888, 37_888),
            Check("parameters of BERT's embeddings of words, millions", _count(bert.tokens) / 1e6, 30.72, 30.72),
            Check("parameters of BERT as described, millions", described / 1e6, 333.5, 333.7),
            Check("parameters of BERT with all its parts, millions", _count(bert) / 1e6, 333, 345),
            Check("parameters of GPT-3, billions", gpts["gpt3"] / 1e9, 174.5, 175.5),
            Check("its layers by 12 L D², billions", by_hand["gpt3"] / 1e9, 173.9, 174.0),
            Check("steps of 3.2 million tokens in 300 billion", 300e9 / 3.2e6, 93_750, 93_750),
            Check("parameters of ViT-B/16, millions", vits["B/16"] / 1e6, 86, 87),
            Check("parameters of ViT-H/14, millions", vits["H/14"] / 1e6, 631, 633),
        ),
        view,
    )


def _beside(sizes: dict[str, dict[str, int]], counted: dict[str, int]) -> Points:
    return tuple(float(_blocks(sizes[name])) for name in counted), tuple(map(float, counted.values()))


def _blocks(size: dict[str, int]) -> int:
    """4 D² of attention and 8 D² of the network after it, L times."""
    return 12 * size["num_layers"] * size["dim"] ** 2


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
