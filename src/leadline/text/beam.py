"""Beam search: several texts are followed at once, and the likeliest of those that ended are kept (Graves, 2012).

    s(y_1 … y_t) = Σ_t log p(y_t | y_1 … y_{t-1}),      K best s of all continuations of K texts go on          (1)
    final        = s / t^α                              α -> penalty: 0 none, more favours long texts           (2)
    diverse      s - λ #{earlier groups that take the same word at this step}     λ -> diversity                (3)

Groups search one after the other at each step (Vijayakumar et al., 2016); (3) decides what is followed, and s itself is
never changed by it. A text that stops counts as ended only if it is among the best K. The search of a prompt is over
when no text that is followed can become better than the worst of K that ended: `early` says how that is guessed, False
from the length of now, "never" from the length that is best for it; True ends as soon as K have ended.
After a full context a search ends, or all its texts go on from their last halves, read anew (`slide`).

Notation   K -> texts of a group;  s -> scores;  t -> number of the token
Shapes     of a search (B, G, K): prompts, groups, texts of a group
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.settings import real, whole
from leadline.text.choosing import AfterPrompts, Choice, Constraint
from leadline.text.decoding import Generated, Scorer, check_kind, checked, not_a_number, padded
from leadline.text.stopping import Stop

_STEEPEST = 20  # penalty: powers of lengths stay numbers
_NEVER = -1.0e9  # in place of -∞, which has no differences


def beam_search(
    scorer: Scorer,
    prompts: Sequence[Sequence[int]],
    most: int,
    beams: int = 4,
    stop: Stop | None = None,
    count: int = 1,
    penalty: float = 1.0,
    early: bool | str = False,
    groups: int = 1,
    diversity: float = 0.0,
    allowed: Tensor | Constraint | AfterPrompts | None = None,
    slide: bool = False,
) -> list[list[Generated]]:
    """The best texts after each prompt, the best first.

    Args:
        most: new tokens a text, at least 1.
        beams: texts followed at once, in all groups together, at least 1.
        count: texts that come back for each prompt, at most `beams`.
        penalty: α, from -20 to 20.
        early: False, True or "never".
        groups: G, which divides beams.
        diversity: λ, at least 0.
        allowed: tokens that may come, as of `leadline.text.choosing.Choice`; a function is told `beams` rows for each
            prompt, one after the other. A text after which nothing may come is given up.
        slide: go on after the context; otherwise texts end there.

    >>> from leadline.engine.decoder import Recomputing
    >>> count_up = lambda rows: torch.nn.functional.one_hot((rows + 1) % 10, 10).float() * 9
    >>> [text.tokens for text in beam_search(Recomputing(count_up), [[3]], most=3, beams=2)[0]]
    [[4, 5, 6]]
    """
    rows = checked(prompts, scorer.length)
    stop = Stop() if stop is None else check_kind("stop", stop, Stop, "Stop(tokens=(0,))")
    most, beams = whole("most", most), whole("beams", beams)
    groups, count = whole("groups", groups, 1, beams), whole("count", count, 1, beams)
    real("penalty", penalty, -_STEEPEST, most=_STEEPEST, usual=1.0)
    real("diversity", diversity, 0, usual=0.5)
    if not (isinstance(early, bool) or early == "never"):
        raise UserError('early must be True, False or "never"', got=f"early={early!r}", do="Leave it out")
    if beams % groups:
        below = beams // groups * groups
        got, do = f"beams={beams}, groups={groups}", f"Nearest: {below} or {below + groups} beams"
        raise UserError("beams must be a multiple of groups", got=got, do=do)
    room = [most if slide or scorer.length is None else scorer.length - len(row) for row in rows]
    search = _Search(len(rows), groups, beams // groups, most, room, stop, penalty, early, diversity)
    scores = scorer.start(*padded([row for row in rows for _ in range(beams)]))
    begin = [0] * len(rows)  # where the part of a prompt and its texts begins that the scorer has read
    if isinstance(allowed, Tensor) and allowed.dim() == 2 and len(allowed) == len(rows):
        allowed = allowed.repeat_interleave(beams, 0)
    choice = Choice(allowed=allowed).after_prompts(torch.tensor([len(row) for row in rows for _ in range(beams)]))
    while True:
        seen = search.seen(rows) if choice.looks_back else None
        if bool(scores.isnan().any()):
            raise not_a_number()
        log_p = choice.permitted(scores.float().log_softmax(-1), seen, some=False).clamp(min=_NEVER)
        search.advance(log_p.unflatten(0, (len(rows), groups, beams // groups)))
        if search.over:
            return [search.best(b, count) for b in range(len(rows))]
        full = [scorer.length is not None and len(row) + search.t - at >= scorer.length for row, at in zip(rows, begin)]
        if slide and any(full):
            half = max(1, (scorer.length or 0) // 2)
            begin = [len(row) + search.t - half if f else at for row, at, f in zip(rows, begin, full)]
            read = [[*rows[k // beams], *words][begin[k // beams] :] for k, words in enumerate(search.texts)]
            scores = scorer.start(*padded(read))
        else:
            scorer.reorder(torch.tensor(search.came_from))
            scores = scorer.next(torch.tensor([words[-1] for words in search.texts]))


class _Search:
    """What is followed and what has ended. Text k of group g of prompt b is number (b G + g) K + k."""

    def __init__(
        self,
        num: int,
        groups: int,
        beams: int,
        most: int,
        room: list[int],
        stop: Stop,
        penalty: float,
        early: bool | str,
        diversity: float,
    ):
        self.stop, self.penalty, self.early, self.diversity = stop, penalty, early, diversity
        self.num, self.groups, self.beams, self.most, self.t = num, groups, beams, most, 0
        self.limits = [min(most, places) for places in room]
        self.texts: list[list[int]] = [[] for _ in range(num * groups * beams)]
        self.scores = [0.0 if k % beams == 0 else _NEVER for k in range(len(self.texts))]  # all are the same at first
        self.came_from = list(range(len(self.texts)))
        self.ended: list[list[Generated]] = [[] for _ in range(num * groups)]
        self.open = [True] * (num * groups)

    @property
    def over(self) -> bool:
        return not any(self.open)

    def seen(self, rows: list[list[int]]) -> Tensor:
        """The tokens of all texts so far, of their prompts too, (B G K, T), -1 where a text has nothing."""
        every = [[*rows[k * self.num // len(self.texts)], *words] for k, words in enumerate(self.texts)]
        filled, lengths = padded(every)
        return filled.masked_fill(torch.arange(filled.shape[1]) >= lengths[:, None], -1)

    def advance(self, log_p: Tensor) -> None:
        """Every text by one token, log_p (B, G, K, V)."""
        num_words = log_p.shape[-1]
        many = min(max(2, 1 + len(self.stop.tokens)) * self.beams, self.beams * num_words)
        total = torch.tensor(self.scores, device=log_p.device).view(log_p.shape[:-1])[..., None] + log_p  # eq. 1
        taken = torch.zeros(self.num, num_words, device=log_p.device)  # by how many texts each token was, at this step
        old, self.t = self.texts, self.t + 1
        self.texts, self.scores, self.came_from = [], [], []
        followed: dict[int, list[_Way]] = {}
        for g in range(self.groups):
            ranked = total[:, g] - self.diversity * taken[:, None] if self.diversity else total[:, g]  # eq. 3
            places = ranked.flatten(1).topk(many).indices  # (B, many)
            scores = total[:, g].flatten(1).gather(1, places).tolist()
            for b, row in enumerate(places.tolist()):
                group = b * self.groups + g
                ways = [
                    (score, group * self.beams + place // num_words, place % num_words)
                    for score, place in zip(scores[b], row)
                ]
                followed[group] = self._followed(group, ways, old)
                for _, _, word in followed[group] if self.diversity else ():
                    taken[b, word] += 1
        for group in range(self.num * self.groups):
            spare = (_NEVER, group * self.beams, 0)  # rows of a search that is over are computed, and left alone
            for score, parent, word in [*followed[group], *[spare] * self.beams][: self.beams]:
                self.scores.append(score)
                self.came_from.append(parent)
                self.texts.append([*old[parent], word])
        self._close()

    def _followed(self, group: int, ways: list[_Way], old: list[list[int]]) -> list[_Way]:
        """The best ways that go on; of those that stop, the ones among the best K are kept as ended."""
        if not self.open[group]:
            return []
        followed: list[_Way] = []
        ended: list[Generated] = []
        last = self.t >= self.limits[group // self.groups]
        for rank, (score, parent, word) in enumerate(ways):
            tokens = [*old[parent], word]
            why = self.stop.why(tokens) or ("" if not last else "most" if self.t == self.most else "context")
            if not why:
                followed.append((score, parent, word))
            elif rank < self.beams and score > _NEVER / 2:
                ended.append(Generated(tokens, score / self.t**self.penalty, why))  # eq. 2
        self.ended[group] = sorted([*self.ended[group], *ended], key=lambda one: -one.score)[: self.beams]
        return followed[: self.beams]

    def _close(self) -> None:
        """Searches in which nothing can become better."""
        for group, kept in enumerate(self.ended):
            limit, best = self.limits[group // self.groups], self.scores[group * self.beams]
            length = limit if self.early == "never" and self.penalty > 0 else self.t
            full = len(kept) == self.beams
            hopeless = full and (self.early is True or best / length**self.penalty <= kept[-1].score)
            hopeless = hopeless or best <= _NEVER / 2  # nothing may come after any text
            if self.t >= limit or hopeless:
                self.open[group] = False

    def best(self, b: int, count: int) -> list[Generated]:
        """Of all groups, each text once."""
        every = [text for kept in self.ended[b * self.groups : (b + 1) * self.groups] for text in kept]
        once = {tuple(text.tokens): text for text in every}
        if not once:
            raise UserError(
                "at least one token must be allowed to come next",
                got=f"none after any text of prompt {b}",
                do="Allow the end, if nothing else, or search with more beams",
            )
        return sorted(once.values(), key=lambda one: -one.score)[:count]


_Way = tuple[float, int, int]  # score, number of the text that it goes on from, token
