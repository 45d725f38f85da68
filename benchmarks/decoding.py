"""Tokens a second of a GPT-2 of 124 million weights, ours beside transformers' generate, in one run. Prints JSON.

    PYTHONPATH=src python -m benchmarks.decoding [--batches 1 64] [--prompt 32] [--new 224] [--device cuda] [--compile]

Needs transformers besides. Both take the likeliest token, in bfloat16 on a GPU, from random weights of the same shapes;
nothing stops a row early. The best of a few runs after one to warm up is told.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable

import torch

from benchmarks.clock import seconds
from leadline.engine.decoder import Cached
from leadline.models.gpt import GPT, SIZES
from leadline.text.decoding import generate


def least(run: Callable[[], None], times: int) -> float:
    """Seconds, of a few runs after one to warm up."""
    run()
    return min(seconds(run) for _ in range(times))


def ours(prompts: torch.Tensor, new: int, size: dict, compile: bool, times: int) -> float:
    model = GPT(**size).to(prompts.device).eval()
    scorer = Cached(model, room=prompts.shape[1] + new, compile=compile)
    rows = prompts.tolist()

    def run() -> None:
        if any(len(row.tokens) != new for row in generate(scorer, rows, new)):
            raise SystemExit("a row ended early: the figure would mean nothing")

    return least(run, times)


def theirs(prompts: torch.Tensor, new: int, size: dict, times: int) -> float:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=size["num_tokens"], n_positions=size["length"], n_embd=size["dim"], n_layer=size["num_layers"],
        n_head=size["num_heads"], bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    dtype = torch.bfloat16 if prompts.device.type == "cuda" else torch.float32
    model = transformers.GPT2LMHeadModel(config).to(prompts.device, dtype).eval()
    there = torch.ones_like(prompts)

    def run() -> None:
        found = model.generate(prompts, attention_mask=there, do_sample=False, min_new_tokens=new, max_new_tokens=new)
        if found.shape[1] != prompts.shape[1] + new:
            raise SystemExit("a row ended early: the figure would mean nothing")
        found.cpu()

    return least(run, times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new", type=int, default=224)
    parser.add_argument("--size", default="gpt2", choices=list(SIZES))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="compile our step by torch.compile")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    size, found = SIZES[options.size], {}
    for batch in options.batches:
        prompts = torch.randint(0, size["num_tokens"], (batch, options.prompt), device=options.device)
        tokens = batch * options.new
        own = tokens / ours(prompts, options.new, size, options.compile, options.times)
        other = tokens / theirs(prompts, options.new, size, options.times)
        found[batch] = {"leadline": round(own, 1), "transformers": round(other, 1), "ratio": round(own / other, 2)}
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    told = {"tokens_per_second_by_batch": found, "device": device, "torch": torch.__version__}
    print(json.dumps({"size": options.size, "prompt": options.prompt, "new": options.new, **told}))


if __name__ == "__main__":
    main()
