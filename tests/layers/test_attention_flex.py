"""FlexAttention, uncompiled: the same as the dense mask, for every rule."""

from functools import partial

import pytest
import torch

from leadline.layers import flex
from leadline.layers import masks as m
from leadline.layers.attend import attend
from leadline.layers.flex import _found_once, flex_attend, worth_it

B, T = 2, 40
TOKENS = (torch.arange(B * T).view(B, T) * 7) % 13

RULES = {
    "causal": m.Causal(),
    "band": m.Window(3) & m.Causal(),
    "dilated": m.Dilated(2, 3),
    "strided": m.Strided(4) | m.Window(1),
    "global": m.Global((0, 5)) | m.Window(2),
    "blocks": m.Blocks(8),
    "random": m.Random(0.3),
    "documents": m.Documents.of(TOKENS, end=0) & m.Causal(),
    "padding": m.Padding(torch.arange(T) < torch.tensor([[T], [9]])),
    "no keys": m.Padding(torch.arange(T) < torch.tensor([[T], [0]])),
    "up to": m.UpTo(torch.arange(T).flip(0).expand(B, T)),
    "graph": m.Graph(TOKENS[:, None] % 3 == TOKENS[:, :, None] % 3),
    "not": ~m.Window(30),
}


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("G", [4, 2])
def test_every_rule(name, G):
    q, k, v = drawn(B, 4, T, 16), drawn(B, G, T, 16, seed=1), drawn(B, G, T, 16, seed=2)
    for scale in (None, 0.3):
        found = flex_attend(q, k, v, RULES[name], scale)
        torch.testing.assert_close(found, attend(q, k, v, RULES[name], scale=scale), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_blocks_are_found_once_for_a_mask_and_then_forgotten():
    q = drawn(B, 1, T, 16)
    _found_once.cache_clear()
    mask = m.Padding(torch.ones(B, T, dtype=torch.bool)) & m.Window(2)
    for _ in range(3):  # the layers of a network
        flex_attend(q, q, q, mask)
    assert _found_once.cache_info().misses == 1
    for _ in range(9):  # steps, each with a mask of its own
        flex_attend(q, q, q, m.Padding(torch.ones(B, T, dtype=torch.bool)))
    assert _found_once.cache_info().misses == 10 and _found_once.cache_info().currsize <= 4


def test_more_masks_than_torch_compiles_of_itself(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # traced, guarded and counted alike
    kernel = flex._compiled.__wrapped__()
    monkeypatch.setattr(flex, "_compiled", lambda: kernel)
    q, rule = drawn(1, 1, 8, 16), m.Window(2)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True):  # as 8 is, in fewer masks
        for _ in range(4):
            rule = ~rule
            found = flex._fused(q, q, q, block_mask=flex._blocks_of(rule, 1, 8, 8, q.device))
            torch.testing.assert_close(found, attend(q, q, q, rule), rtol=1e-4, atol=1e-5)


def test_short_rows_and_cpus_go_the_plain_way():
    q = drawn(1, 1, 2000, 16)
    assert not worth_it(q, q, q)
