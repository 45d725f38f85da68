"""What becomes of a text when its most frequent pairs are merged."""

from __future__ import annotations

from leadline.claims.claim import Check, Evidence, claim
from leadline.lens.vocabulary import vocabulary


@claim(
    "bpe-rhyme",
    "Byte pair encoding of a nursery rhyme merges s and e first, then e and whitespace; the vocabulary rises from 19 "
    "characters, and falls to the 18 words of the rhyme",
    "Understanding Deep Learning, section 12.5.1, figure 12.7",
    misprint="figure 12.7 prints 'see see see' in the first line of the rhyme, where its counts belong to "
    "'sea sea sea'; after the second merge it prints w 2 and s 1 for 3 and 2, and its last table has more counts "
    "than there are words",
)
def bpe_rhyme(full: bool) -> Evidence:
    view = vocabulary()
    first, second, last = view.tables[0], view.tables[2], view.tables[len(view.merges)]
    exact = {
        "whitespace at first": (first["_"], 33),
        "e at first": (first["e"], 28),
        "s at first": (first["s"], 15),
        "merge 1 is se, so often": (view.counts[0] * (view.merges[0] == "se"), 13),
        "merge 2 is e_, so often": (view.counts[1] * (view.merges[1] == "e_"), 12),
        "whitespace left after it": (second["_"], 21),
        "e left after it": (second["e"], 3),
        "characters at first": (view.sizes[0], 19),
        "tokens at the end": (view.sizes[-1], 18),
        "see_ at the end": (last["see_"], 7),
        "sea_ at the end": (last["sea_"], 6),
        "tokens at the end that are no words": (sum(not token.endswith("_") for token in last), 0),
    }
    checks = [Check(what, float(measured), printed, printed) for what, (measured, printed) in exact.items()]
    # 28 to 36 over the orders of equally frequent pairs; 29 where the first in the text goes first
    return Evidence((*checks, Check("tokens at most", view.peak, 28, 36)), view)
