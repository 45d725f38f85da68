"""GPT-2 with 124 million weights, on a GPU in bf16: `fit` beside Hugging Face's Trainer and compiled torch.

    PYTHONPATH=src python -m benchmarks.gpt2 --text bible.txt [--batch 32] [--steps 200] [--only trainer plain fit]

All begin with the same weights and take as many steps with AdamW, warm-up and a cosine over rows of 1,024 tokens out of
one text. Prints tokens a second of steady training (what is compiled in the first steps is left out), teraflops,
peak memory and the loss of every tenth step as one JSON object; --draw writes the curves.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.inputs import Identity
from leadline.data.target import Target
from leadline.engine.events import EpochDone, StepsDone
from leadline.interop import hugging_face
from leadline.models.gpt import GPT
from leadline.optim.schedules import schedule
from leadline.text import Tokenizer

V, T, D, L, H = 50257, 1024, 768, 12, 12
LR, WARMUP, DECAY = 6e-4, 0.05, 0.1
#: of a token forwards and backwards: 6 a weight that multiplies it, and 12 T D a layer for attention
FLOPS = 6 * (L * 12 * D * D + V * D) + 12 * L * T * D


class Plain(nn.Module):
    """The same network as nobody would write shorter."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(_Block() for _ in range(L))
        self.norm = nn.LayerNorm(D)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.tokens(x) + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        scores = F.linear(self.norm(h), self.tokens.weight)
        return F.cross_entropy(scores.flatten(0, 1).float(), y.flatten())


class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.widen, self.narrow = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, h: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in self.qkv(self.norm1(h)).chunk(3, -1))
        h = h + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return h + self.narrow(F.gelu(self.widen(self.norm2(h)), approximate="tanh"))


def rows_of(text: Path) -> tuple[Tensor, Tensor]:
    opened = gzip.open if text.suffix == ".gz" else open
    with opened(text, "rt", encoding="utf-8", errors="replace") as file:
        words = file.read()
    tokenizer = Tokenizer.train([words], kind="bpe", num_tokens=16_000)
    stream = torch.tensor(tokenizer.encode(words))
    count = (len(stream) - 1) // T
    return stream[: count * T].view(count, T), stream[1 : count * T + 1].view(count, T)


def first() -> GPT:
    return ll.models.build("GPT", _data(torch.zeros(1, T).long(), torch.zeros(1, T).long()), V, **_size())


def _size() -> dict[str, Any]:
    return {"dim": D, "num_layers": L, "num_heads": H, "p_drop": 0.0}


class _Rows(Identity):
    """Tokens in memory."""

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"num_tokens": V, "length": T}

    def room(self, shape: tuple[int, ...]) -> int:
        return T * V * 4

    def encode(self, x: Tensor) -> Tensor:
        return x


def _data(x: Tensor, y: Tensor) -> Data:
    none = Split(x[:0], y[:0])
    return Data(Split(x, y), none, none, Target("tokens", dim=V, scale=(float(T),)), _Rows())


def by_fit(x: Tensor, y: Tensor, batch: int, steps: int) -> dict[str, Any]:
    x, y = x[: len(x) // batch * batch], y[: len(x) // batch * batch]
    per_epoch = len(x) // batch
    epochs = -(-steps // per_epoch)
    marks: list[tuple[int, float]] = []
    losses: list[Tensor] = []

    def listen(event: Any) -> None:
        if isinstance(event, StepsDone):
            losses.append(event.losses.detach())
        if isinstance(event, EpochDone):
            torch.cuda.synchronize()
            marks.append((event.epoch, time.perf_counter()))

    options = {"lr": LR, "weight_decay": DECAY, "warmup": WARMUP, "precision": "bf16", "compile": "on"}
    ll.fit(first(), _data(x, y), epochs=epochs, batch=batch, progress=False, listeners=[listen], findings=[], **options)
    (first_epoch, start), (last, end) = marks[0], marks[-1]
    rate = (last - first_epoch) * per_epoch * batch * T / (end - start)
    return {"rate": rate, "losses": torch.cat([part.flatten() for part in losses]).tolist()[:steps]}


def by_plain(x: Tensor, y: Tensor, batch: int, steps: int) -> dict[str, Any]:
    model = Plain().cuda()
    ours = first()
    with torch.no_grad():
        for own, other in zip(_in_order(model), _of_gpt(ours), strict=True):
            own.copy_(other)
    step = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), LR, weight_decay=DECAY, fused=True)
    return _looped(step, optimizer, x, y, batch, steps)


def _in_order(model: Plain) -> list[Tensor]:
    found = [model.tokens.weight, model.places.weight]
    for b in model.blocks:
        found += [b.norm1.weight, b.norm1.bias, b.qkv.weight, b.qkv.bias, b.out.weight, b.out.bias, b.norm2.weight]
        found += [b.norm2.bias, b.widen.weight, b.widen.bias, b.narrow.weight, b.narrow.bias]
    return [*found, model.norm.weight, model.norm.bias]


def _of_gpt(model: GPT) -> list[Tensor]:
    return [p.detach() for p in _sorted(model)]


def _sorted(model: GPT) -> list[Tensor]:
    found: list[Tensor] = [model.embed.weight, model.place.weight]  # type: ignore[union-attr]
    for layer in model.layers:
        look, think = layer.look, layer.think
        found += [
            look.norm.weight,
            look.norm.bias,
            look.branch.query_key_value.weight,
            look.branch.query_key_value.bias,
        ]
        found += [look.branch.out.weight, look.branch.out.bias, think.norm.weight, think.norm.bias]
        found += [think.branch.widen.weight, think.branch.widen.bias, think.branch.narrow.weight]
        found += [think.branch.narrow.bias]
    return [*found, model.leave.weight, model.leave.bias]


def _looped(step: Any, optimizer: Any, x: Tensor, y: Tensor, batch: int, steps: int) -> dict[str, Any]:
    x, y = x.cuda(), y.cuda()
    factor = schedule("cosine", WARMUP, steps, 1)
    losses, start, begun = [], 0.0, 10
    for k in range(steps):
        if k == begun:
            torch.cuda.synchronize()
            start = time.perf_counter()
        rows = torch.randperm(len(x), device="cuda")[:batch]
        with torch.autocast("cuda", torch.bfloat16):
            loss = step(x[rows], y[rows])
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = LR * factor(k)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    torch.cuda.synchronize()
    rate = (steps - begun) * batch * T / (time.perf_counter() - start)
    return {"rate": rate, "losses": torch.stack(losses).tolist()}


def by_trainer(x: Tensor, y: Tensor, batch: int, steps: int) -> dict[str, Any]:
    import transformers

    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        hugging_face.save(first(), folder)
        model = transformers.GPT2LMHeadModel.from_pretrained(folder)
        model.config.update({"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        marks: list[float] = []
        losses: list[float] = []

        class Marks(transformers.TrainerCallback):
            def on_step_end(self, *args: Any, **more: Any) -> None:
                if len(marks) in (10, steps - 1):
                    torch.cuda.synchronize()
                marks.append(time.perf_counter())

            def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
                if "loss" in (logs or {}):
                    losses.append(float(logs["loss"]))

        rows = [{"input_ids": row, "labels": row} for row in x]
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=batch, max_steps=steps, bf16=True, learning_rate=LR,
            weight_decay=DECAY, lr_scheduler_type="cosine", warmup_steps=round(WARMUP * steps), logging_steps=10,
            report_to=[], save_strategy="no", dataloader_num_workers=4, disable_tqdm=True, optim="adamw_torch_fused",
        )  # fmt: skip
        transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Marks()]).train()
    rate = (steps - 11) * batch * T / (marks[-1] - marks[10])
    return {"rate": rate, "losses": losses, "every": 10}


WAYS = {"trainer": by_trainer, "plain": by_plain, "fit": by_fit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=list(WAYS))
    parser.add_argument("--draw", type=Path)
    args = parser.parse_args()
    x, y = rows_of(args.text)
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": len(x)}
    for name in args.only:
        torch.manual_seed(0)
        torch.cuda.reset_peak_memory_stats()
        way = WAYS[name](x, y, args.batch, args.steps)
        own = {"tokens_per_second": round(way["rate"]), "tflops": round(way["rate"] * FLOPS / 1e12)}
        own["gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
        own["losses"] = way["losses"] if "every" in way else [round(v, 3) for v in way["losses"][9::10]]
        found[name] = own
        gc.collect()
        torch.cuda.empty_cache()
        print(json.dumps(found), flush=True)
    for peer in ("trainer", "plain"):
        if peer in found and "fit" in found:
            found[f"over_{peer}"] = found["fit"]["tokens_per_second"] / found[peer]["tokens_per_second"]
    print(json.dumps(found))
    if args.draw:
        _draw(found, args.draw)


def _draw(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.6))
    for name in WAYS:
        if name in found:
            losses = found[name]["losses"]
            axes.plot([10 * (k + 1) for k in range(len(losses))], losses, label=name)
    axes.set(xlabel="step", ylabel="loss, nats a token", title="GPT-2 124M, the same data")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
