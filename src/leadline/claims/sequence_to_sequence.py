"""What a decoder may know of a source: one vector, or all of it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.models.encoder_decoder import EncoderDecoder

_WORDS, _START, _FIRST = 12, 1, 2  # of the vocabulary; what the decoder reads first; the first that is a word


@claim(
    "attention-beats-fixed-vector",
    "A recurrent decoder that knows its source by one vector writes short sequences and fails on long ones; one that "
    "looks at every word of the source writes both, with fewer weights and as many steps of training",
    "Bahdanau et al. 2014, figure 2; lecture notes 5.3",
)
def attention_beats_fixed_vector(full: bool) -> Evidence:
    longest, steps, seeds = (24, 1500, 3) if full else (10, 150, 1)
    lengths = (*range(2, longest, longest // 5), longest)
    wide, narrow = (80, 64) if full else (40, 32)
    found: dict[str, list[float]] = {}
    weights: dict[str, int] = {}
    with torch.random.fork_rng(devices=[]):
        for name, dim in (("bilinear", narrow), ("none", wide)):
            shares = []
            for seed in range(seeds):
                torch.manual_seed(seed)
                net = EncoderDecoder(
                    _WORDS, longest, longest, cell="gru", dim=dim, num_layers=1, attention=name, p_drop=0.0
                )
                weights[name] = sum(p.numel() for p in net.parameters())
                _train(net, longest, steps, seed)
                shares.append([_right(net, length) for length in lengths])
            found[name] = torch.tensor(shares).mean(0).tolist()
    looking, fixed = found["bilinear"], found["none"]
    checks = (
        Check("weights without attention over those with it", weights["none"] / weights["bilinear"], low=1.0),
        Check("words right of 2, with attention", looking[0], low=0.9),
        Check("words right of 2, without", fixed[0], low=0.85),
        Check(f"words right of {longest}, with attention", looking[-1], low=0.8),
        Check(f"words right of {longest}, without", fixed[-1], high=0.75),
        Check("what length costs without attention, over what it costs with it, in words right",
              (fixed[0] - fixed[-1]) - (looking[0] - looking[-1]), low=0.15),
    )  # fmt: skip
    view = Curves(
        "A source turned round", "words of the source", "share of words right",
        {"attention": (tuple(map(float, lengths)), tuple(looking)),
         "a fixed vector": (tuple(map(float, lengths)), tuple(fixed))},
    )  # fmt: skip
    return Evidence(checks, view)


def _batch(num: int, length: int, most: int, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sources of `length` words, padded to `most`, with what the decoder reads; and the same from the end."""
    source = torch.randint(_FIRST, _WORDS, (num, length), generator=stream)
    y = source.flip(1)
    padded = F.pad(source, (0, most - length))
    return torch.cat([padded, torch.full((num, 1), _START), y[:, :-1]], 1), y


def _train(net: EncoderDecoder, longest: int, steps: int, seed: int) -> None:
    """A length of its own for each batch, all of them equally often."""
    rule, stream = torch.optim.Adam(net.parameters(), 0.01), torch.Generator().manual_seed(seed)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(rule, steps)
    for _ in range(steps):
        length = int(torch.randint(2, longest + 1, (1,), generator=stream))
        x, y = _batch(32, length, longest, stream)
        rule.zero_grad()
        F.cross_entropy(net(x).flatten(0, 1), y.flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        rule.step()
        slower.step()


@torch.no_grad()
def _right(net: EncoderDecoder, length: int) -> float:
    """The share of words that are right where those before them are."""
    x, y = _batch(200, length, net.len_source, torch.Generator().manual_seed(99))
    return float((net.eval()(x).argmax(-1) == y).float().mean())
