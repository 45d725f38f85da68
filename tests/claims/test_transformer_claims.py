"""Claims on transformers can say no: broken attention, masks that leak and one layer for two are noticed."""

import pytest
import torch

from leadline.claims import CLAIMS, attention, inside_language, seeing, transformer_depth
from leadline.claims.claim import FAILS
from leadline.layers.masks import Window
from leadline.lens.heads import silenced


def missed(name):
    return [check.what for check in CLAIMS[name].run().evidence.checks if not check.holds]


def test_a_mask_that_leaks_is_noticed(monkeypatch):
    monkeypatch.setattr("leadline.models.gpt.Causal", lambda: Window(100))
    assert missed("masks-leak-nothing") == ["share of the answers that a later word changes"]
    monkeypatch.setattr(seeing, "Causal", lambda: Window(100))
    assert "places changed by a later word, earlier words alone" in missed("global-tokens-leak")


def test_documents_that_see_each_other_are_noticed(monkeypatch):
    monkeypatch.setattr("leadline.layers.masks.Documents.allows", lambda self, b, i, j: (j == j) & (i == i) & (b == b))
    assert missed("masks-leak-nothing") == ["share of the answers that another document changes"]


def test_padding_that_is_seen_is_noticed(monkeypatch):
    monkeypatch.setattr("leadline.layers.masks.Padding.allows", lambda self, b, i, j: (j == j) & (i == i) & (b == b))
    assert missed("masks-leak-nothing") == ["share of the answers that padding changes"]


def test_weights_that_are_no_distribution_are_noticed(monkeypatch):
    monkeypatch.setattr(attention, "weights", lambda q, k: torch.sigmoid(q @ k.transpose(-1, -2)))
    assert "largest distance of a sum of weights from 1" in missed("attention-routes")


@pytest.mark.parametrize("words, longest", [(8, 30), (16, 20)])
def test_the_two_layers_made_for_it_copy_every_word(words, longest):
    x, known = inside_language._repeated(50, words, longest, torch.Generator().manual_seed(3))
    net = inside_language._induction(words + 1, x.shape[1])
    assert inside_language._accuracy(net, x, known) == 1
    with silenced(net, {"looks.1": (0,)}):
        assert inside_language._accuracy(net, x, known) < 0.2


def test_what_is_said_to_be_known_has_been_there():
    x, known = inside_language._repeated(20, 8, 30, torch.Generator().manual_seed(0))
    for row, may in zip(x.tolist(), known.tolist(), strict=True):
        assert row[0] == 8 and not may[-1] and not any(may[:9])
        for t in range(len(row) - 1):
            before = {row[k + 1] for k in range(t) if row[k] == row[t] != 8} - {8}
            assert not may[t] or before == {row[t + 1]}


def test_norms_inside_and_behind_are_different_stacks():
    torch.manual_seed(0)
    x = torch.randint(8, (2, 16))
    stacks = {kind: transformer_depth._Stack(kind, 2) for kind in ("none", "pre", "post")}
    for kind, stack in stacks.items():
        streams = stack.streams(stack.word(x) + stack.place)
        assert len(streams) == 3 and stack(x).shape == (2, 16, 8)
        spread = streams[-1].var(-1, unbiased=False)
        assert torch.allclose(spread, torch.ones_like(spread), atol=1e-3) == (kind == "post")


def test_a_stack_that_learns_nothing_is_not_said_to_train(monkeypatch):
    idle = transformer_depth._Course([2.08] * 10, [1.0] * 10)
    monkeypatch.setattr(transformer_depth, "_trained", lambda *args: idle)
    outcome = CLAIMS["norm-placement"].run()
    assert outcome.verdict == FAILS and [check.holds for check in outcome.evidence.checks] == [False, True]
