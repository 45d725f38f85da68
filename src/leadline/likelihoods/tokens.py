"""Tokens: y is a token at each place of a row: the next word, a hidden one, the word of a translation, a word's tag.

    p(y_t = v)  = softmax_v(output_t)                                                      (1)
    total       = Σ_t -log p(y_t), over the places t where something is asked              (2)
    loss        = total / n̄,   labels smoothed by s                                        (3)
    nll         = Σ total / Σ count,   perplexity = e^nll                                  (4)   over all rows
    bits a byte = Σ total / (log 2 · Σ bytes of the tokens y)                              (5)   where they are known
    bits a character                                                                             the same of characters
    IoU_c       = Σ |said c and is c| / Σ |said c or is c|                                 (6)   of classes with names

A token counts alike in whatever row it stands, for n̄ is one number for all rows: the mean count. Where it is not known,
each row is divided by its own count. Places of y = -1 count nowhere.

Scores that are not computed yet (`leadline.layers.unembedding`) and would not fit are computed piece by piece, once for
the loss and once for its gradient: eq. 1 is never held for all places at once.

Notation   n̄ -> per;  s -> label_smoothing;  V tokens
Shapes     output (B, T, V); y (B, T)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.layers.unembedding import Deferred
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.codes import check_smoothing
from leadline.likelihoods.likelihood import Likelihood, full
from leadline.likelihoods.surprise import surprise_of
from leadline.likelihoods.values import names_of
from leadline.settings import real, whole

NOTHING = -1  # asked at a place
#: scores of a batch, in bytes, above which they are computed piece by piece; a piece has an eighth of it
_MOST_BYTES = {"cpu": 2**28, "cuda": 2**33}


class Tokens(Likelihood):
    """Args:
        num_tokens: V, at least 2.
        label_smoothing: s, 0 <= s < 1.
        per: n̄ of eq. 3, above 0; None takes each row's own count.
        sizes, characters: bytes and characters of text that each token stands for; none where nobody knows.
        most: places of a row where something is asked, at most: scores that are not computed yet are computed for
            as many. None may be all.
        names: of the tokens, where they are few and judged by eq. 6 too, such as the parts of a cloud of points.

    >>> y = torch.tensor([[3, 1, -1]])
    >>> float(Tokens(4).loss(torch.zeros(1, 3, 4), y))  # log 4
    1.3862943649291992
    """

    kinds = ("tokens",)
    takes_deferred = True

    def __init__(
        self,
        num_tokens: int,
        label_smoothing: float = 0.0,
        per: float | None = None,
        sizes: Sequence[int] = (),
        most: int | None = None,
        characters: Sequence[int] = (),
        names: Sequence[str] = (),
    ):
        super().__init__()
        self.names = names_of(names, num_tokens) if names else ()
        if names:
            self.headline, self.higher_is_better = "mean_iou", True
        self.num_tokens = self.dim_output = whole("num_tokens", num_tokens, 2)
        self.label_smoothing = check_smoothing(label_smoothing)
        self.per = None if per is None else real("per", per, 0, above=True)
        self.sizes, self.most = tuple(sizes), None if most is None else whole("most", most)
        self.characters = tuple(characters)
        for name in ("sizes", "characters"):
            known = getattr(self, name)
            if len(known) not in (0, num_tokens):
                raise UserError(
                    f"{name} must have a number for each token",
                    got=f"{len(known)} for {num_tokens} tokens",
                    do="Leave them out, or take those of a tokenizer",
                )
            self.register_buffer(f"_{name}", torch.tensor(known or [0]), persistent=False)

    @classmethod
    def for_target(cls, target: Target, **options: Any) -> Tokens:
        per = target.scale[0] if target.scale[0] != 1 else None
        told: dict[str, Any] = {"sizes": target.sizes, "characters": target.characters, "most": target.most}
        told |= {"names": target.classes} if target.overlap else {}
        return cls(target.dim, per=per, **told, **options)

    @property
    def loss_is_nll(self) -> bool:
        return not self.label_smoothing and self.per is None

    def extra_repr(self) -> str:
        return f"num_tokens={self.num_tokens}, label_smoothing={self.label_smoothing}"

    def distribution(self, output: Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(logits=full(output), validate_args=False)

    def loss(self, output: Tensor | Deferred, y: Tensor) -> Tensor:
        if isinstance(output, Deferred) and self.most is not None and self.most < y.shape[1]:
            output, y = _where_asked(output, y, self.most)
        asked, codes = _asked(y)
        total = torch.where(asked, self._each(output, codes), 0).sum(1)  # eq. 2
        return total / (asked.sum(1).clamp(min=1) if self.per is None else self.per)  # eq. 3

    def _each(self, output: Tensor | Deferred, codes: Tensor) -> Tensor:
        """The loss of every place, (B, T)."""
        if isinstance(output, Deferred) and not self.label_smoothing and not self._large(codes):
            flat = output._replace(h=output.h.flatten(0, 1))
            if codes.is_cuda:
                return surprise_of(flat, codes.flatten()).view(codes.shape)
            return F.cross_entropy(full(flat.scores()), codes.flatten(), reduction="none").view(codes.shape)
        lse, own, mean = self._parts(output, codes)
        return lse - own if not self.label_smoothing else lse - own + self.label_smoothing * (own - mean)

    def _large(self, codes: Tensor) -> bool:
        return codes.numel() * self.num_tokens * 4 > _MOST_BYTES.get(codes.device.type, _MOST_BYTES["cpu"])

    def _parts(self, output: Tensor | Deferred, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log Σ exp of the scores of each place, the score of y, and the mean score: (B, T) each."""
        if isinstance(output, Deferred):
            if self._large(codes):
                return self._in_pieces(output, codes)
            output = output.scores()
        output = full(output)
        own = output.gather(-1, codes[..., None]).squeeze(-1)
        return output.logsumexp(-1), own, output.mean(-1) if self.label_smoothing else own

    def _in_pieces(self, output: Deferred, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h, weight, bias = output
        places = max(1, _MOST_BYTES.get(h.device.type, _MOST_BYTES["cpu"]) // 8 // (4 * self.num_tokens))
        dtype = torch.get_autocast_dtype(h.device.type) if torch.is_autocast_enabled(h.device.type) else h.dtype
        found = Pieces.apply(h.flatten(0, -2), weight, bias, codes.flatten(), places, dtype)
        lse, own = (part.view(codes.shape) for part in found)
        if not self.label_smoothing:
            return lse, own, own
        mean = full(h) @ full(weight).mean(0)
        return lse, own, mean if bias is None else mean + full(bias).mean()

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        asked, codes = _asked(y)
        output = full(output)
        nll = F.cross_entropy(output.flatten(0, 1), codes.flatten(), reduction="none").view(y.shape)
        right = (output.argmax(-1) == codes) & asked
        count, total = asked.sum(1), torch.where(asked, nll, 0).sum(1)
        found = {
            "nll": total / count.clamp(min=1),
            "total": total,
            "right": right.sum(1).to(output.dtype),
            "count": count.to(output.dtype),
        }
        for name in ("sizes", "characters"):
            if getattr(self, name):
                found[name] = torch.where(asked, getattr(self, f"_{name}")[codes], 0).sum(1).to(output.dtype)
        said = output.argmax(-1) if self.names else codes
        for code, name in enumerate(self.names):
            named, there = (said == code) & asked, (codes == code) & asked
            found[f"both_{name}"] = (named & there).sum(1).to(output.dtype)
            found[f"either_{name}"] = (named | there).sum(1).to(output.dtype)
        return found

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        count = means["count"] if means["count"] > 0 else math.nan  # of nothing there is no mean
        nll = means["total"] / count  # eq. 4
        found = {"nll": nll, "perplexity": math.exp(min(nll, 700.0)), "accuracy": min(means["right"] / count, 1.0)}
        seen = [name for name in self.names if means[f"either_{name}"] > 0]
        each = {name: min(means[f"both_{name}"] / means[f"either_{name}"], 1.0) for name in seen}  # eq. 6
        if self.names:
            del found["perplexity"]
            found |= {"mean_iou": sum(each.values()) / max(len(seen), 1)}
            found |= {f"iou_{name}": value for name, value in each.items()}
        for name, what in (("sizes", "byte"), ("characters", "character")):
            if means.get(name, 0) > 0:
                found[f"bits_per_{what}"] = means["total"] / math.log(2) / means[name]  # eq. 5
        return found

    def prediction(self, output: Tensor) -> TokensPrediction:
        return TokensPrediction(self.distribution(output))

    def check(self, y: Tensor) -> None:
        if y.dim() != 2:
            raise ShapeError(
                "tokens must have shape (n, T)", got=f"y of shape {tuple(y.shape)}", do="Pass one token for each place"
            )
        if y.is_floating_point() or y.is_complex():
            raise DataError("tokens must be whole numbers", got=f"y of type {y.dtype}", do="Pass y.long()")
        if y.dtype == torch.int16 and self.num_tokens > 2**15:
            return  # unsigned, as a file of tokens holds them: all that there are lie in its range
        low, high = (int(end) for end in y.aminmax()) if y.numel() else (0, 0)
        if low < NOTHING or high >= self.num_tokens:
            raise DataError(
                f"tokens must lie in 0 … {self.num_tokens - 1}, or be {NOTHING} where there is nothing to predict",
                got=f"values from {low} to {high}",
                do="Use the tokenizer that the model was built for",
            )
        if low == high == NOTHING:
            raise DataError("some row must have a token to predict", got="-1 at every place", do="Pass tokens")

    def check_output(self, output: Tensor, y: Tensor) -> None:
        if output.shape != (*y.shape, self.num_tokens):
            raise ShapeError(
                f"Tokens needs {self.num_tokens} scores for each place",
                got=f"model output of shape {tuple(output.shape)} for y of shape {tuple(y.shape)}",
                do="Take a model that answers for every token, such as GPT, with num_tokens of the data",
            )


class Pieces(torch.autograd.Function):
    """log Σ_v exp(e_v · h_n + b_v) and e_y · h_n + b_y for every n, the scores of a few places at a time.

    ∂ lse_n / ∂ score_{nv} = softmax_v(score_n)        computed again in the backward pass
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        h: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, places: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        lse, own = [], []
        with torch.autocast(h.device.type, enabled=False):
            w, b = weight.to(dtype), None if bias is None else bias.to(dtype)
            for part, codes in zip(h.split(places), y.split(places), strict=True):
                scores = F.linear(part.to(dtype), w, b)
                own.append(full(scores.gather(1, codes[:, None])).squeeze(1))
                lse.append(full(scores).logsumexp(1))
        return torch.cat(lse), torch.cat(own)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *tensors, ctx.places, ctx.dtype = inputs
        ctx.save_for_backward(*tensors, output[0])

    @staticmethod
    def backward(ctx: Any, g_lse: Tensor, g_own: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, bias, y, lse = ctx.saved_tensors
        dtype = ctx.dtype
        gh, gw, gb = [], torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias)
        with torch.autocast(h.device.type, enabled=False):
            w, b = weight.to(dtype), None if bias is None else bias.to(dtype)
            for start in range(0, len(h), ctx.places):
                at = slice(start, start + ctx.places)
                part = h[at].to(dtype)
                g = (full(F.linear(part, w, b)) - lse[at, None]).exp_() * g_lse[at, None]
                g = g.scatter_add_(1, y[at, None], g_own[at, None].to(g.dtype)).to(dtype)
                gh.append((g @ w).to(h.dtype))
                gw = gw + g.T @ part
                gb = None if gb is None else gb + g.sum(0)
        return torch.cat(gh), gw, gb, None, None, None


def _where_asked(output: Deferred, y: Tensor, most: int) -> tuple[Deferred, Tensor]:
    """The same for the places of each row where something is asked, and others up to `most`."""
    places = (y != NOTHING).int().topk(most, 1).indices  # (B, most)
    h = output.h.gather(1, places[:, :, None].expand(-1, -1, output.h.shape[2]))
    return output._replace(h=h), y.gather(1, places)


def _asked(y: Tensor) -> tuple[Tensor, Tensor]:
    """Where something is asked, and the tokens, 0 where nothing is."""
    asked = y != NOTHING
    return asked, torch.where(asked, y, 0).long()


class TokensPrediction(ClassPrediction):
    """Probabilities of the tokens at each place."""

    def log_prob(self, y: Any) -> Tensor:
        """log p(y) of each row, the mean over the places where something is asked, (B,)."""
        asked, codes = _asked(torch.as_tensor(y, device=self.mode.device))
        each = torch.where(asked, self.distribution.log_prob(codes), 0)
        return each.sum(1) / asked.sum(1).clamp(min=1)

    def quantile(self, q: float) -> Tensor:
        raise UserError(
            "a quantile needs values in an order, and tokens have none",
            got=f"quantile({q}) of a Tokens prediction",
            do="Use the mode, or probabilities",
        )
