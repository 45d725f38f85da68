"""BERT-base learning hidden words on a GPU, rows of 128 tokens in bf16: `fit` beside transformers' model.

    PYTHONPATH=src python -m benchmarks.bert [--batch 128] [--only eager compiled fit]
    PYTHONPATH=src python -m benchmarks.bert --cpu                                        a look, with a small one

eager       transformers.BertForMaskedLM, its fused attention, a fused AdamW, one batch on the device
compiled    the same under torch.compile
fit         `ll.fit` on rows of which 15 % are hidden anew in every epoch

All three drop a tenth of the units, and of the attention weights as well (--p-drop), and have 15 % of the tokens
hidden. Rates are those of steady training: first steps, in which code is compiled, are left out. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch

import leadline as ll
from benchmarks.clock import Epochs, plain_rate
from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.data.tokens import Tokens
from leadline.models import bert
from leadline.text import Tokenizer

V, P_HIDDEN = 30522, 0.15
PARTS = ("eager", "compiled", "fit")


class _Words(Tokens):
    """Rows of numbers that no text was cut into."""

    def __init__(self, length: int):
        super().__init__("masked", length, Tokenizer.train(["one two three"], kind="wordpiece"), p_hidden=P_HIDDEN)

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"num_tokens": V, "length": shape[0], "pad": None}

    def _lists(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.arange(V, device=device)
        return tokens < 5, tokens[5:]


def data_of(count: int, length: int) -> Data:
    x = torch.randint(5, V, (count, length), generator=torch.Generator().manual_seed(0)).to(torch.int16)
    inputs, none = _Words(length), Split(x[:0], x[:0])
    most = int(inputs.num_hidden(torch.tensor(length)))
    return Data(Split(x, x), none, none, Target("tokens", dim=V, scale=(float(most),), most=most), inputs, "words")


def theirs_rate(
    shape: dict[str, Any], length: int, batch: int, p_drop: float, device: str, compiled: bool, steps: int
) -> float:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=V, hidden_size=shape["dim"], num_hidden_layers=shape["num_layers"],
        num_attention_heads=shape["num_heads"], intermediate_size=4 * shape["dim"], max_position_embeddings=length,
        hidden_dropout_prob=p_drop, attention_probs_dropout_prob=p_drop,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.01, fused=True)
    net = torch.compile(model) if compiled else model
    x = torch.randint(5, V, (batch, length), device=device)
    y = torch.where(torch.rand(batch, length, device=device) < P_HIDDEN, x, -100)
    return plain_rate(model, optimizer, lambda: net(input_ids=x, labels=y).loss, batch, steps)


def fit_rate(
    shape: dict[str, Any], data: Data, length: int, batch: int, p_drop: float, epochs: int, device: str
) -> float:
    """Rows a second, from the end of the second epoch on."""
    model = ll.models.build("BERT", data, V, p_drop=p_drop, **shape)
    settings = {"optimizer": "adamw", "lr": 1e-4, "weight_decay": 0.01, "findings": [], "progress": False}
    fast = {"precision": "bf16", "compile": "on"} if device == "cuda" else {"compile": "off"}
    clock = Epochs()
    ll.fit(model, data, epochs=epochs, batch=batch, device=device, listeners=[clock], **settings, **fast)
    return clock.rate(len(data.train) // batch * batch)


def main() -> None:
    parser = argparse.ArgumentParser(description="BERT beside transformers'.")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--p-drop", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=12_800)
    parser.add_argument("--cpu", action="store_true", help="a small one, on few rows")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    device, shape, length, batch = "cuda", bert.SIZES["base"], options.length, options.batch
    rows, steps, p_drop = options.rows, 30, options.p_drop
    if options.cpu:
        device, shape, length, batch, rows, steps = "cpu", {"dim": 64, "num_layers": 2, "num_heads": 2}, 32, 8, 64, 4
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "batch": batch,
        "length": length,
        "p_drop": p_drop,
    }
    for part in ("eager", "compiled"):
        if part in options.only:
            rate = theirs_rate(shape, length, batch, p_drop, device, part == "compiled", steps)
            found[f"transformers_{part}_rows_per_second"] = round(rate)
            print(json.dumps(found), flush=True)
    if "fit" in options.only:
        rate = fit_rate(shape, data_of(rows, length), length, batch, p_drop, options.epochs, device)
        found["fit_rows_per_second"] = round(rate)
        for part in ("eager", "compiled"):
            theirs = found.get(f"transformers_{part}_rows_per_second")
            found[f"over_{part}"] = round(rate / theirs, 3) if theirs else None
    print(json.dumps(found))


if __name__ == "__main__":
    main()
