"""BERT: its parameters counted, its equations by hand, what padding and neighbours may not change, what it learns."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.interop import fill
from leadline.layers.unembedding import Deferred, deferred
from leadline.likelihoods import Tokens
from leadline.models import BERT
from leadline.models.bert import HEADS, SIZES
from leadline.testing import check_gradients, check_model

PAD, CLS, SEP, MASK = 0, 1, 2, 3


def small(head="tokens", dim_output=3, **options):
    outputs = {"tokens": 19, "span": 2}.get(head, dim_output)
    sizes = {"dim": 12, "num_layers": 2, "num_heads": 3, "pad": PAD, "sep": SEP, **options}
    return BERT(19, 10, outputs, head, **sizes)


def rows(B=4, T=10, seed=0):
    x = torch.randint(4, 19, (B, T), generator=torch.Generator().manual_seed(seed))
    x[:, 0] = CLS
    return x


@pytest.mark.parametrize("head", HEADS)
def test_every_head_keeps_the_contract(head):
    torch.manual_seed(0)
    check_model(small(head))


@pytest.mark.parametrize("options", [{"pad": None, "sep": None}, {"p_drop": 0.0, "activation": "relu"}])
def test_it_keeps_it_with_other_options(options):
    torch.manual_seed(0)
    check_model(small("tokens", **options), rows())


def test_the_large_one_has_the_parameters_of_the_book():
    with torch.device("meta"):
        model = BERT(30_000, 512, 30_000, **SIZES["large"])
    count = lambda part: sum(p.numel() for p in part.parameters())  # noqa: E731
    assert count(model.layers) == 24 * (4 * 1024**2 + 4 * 1024 + 2 * 1024 * 4096 + 4096 + 1024 + 4 * 1024)
    assert count(model.layers) == pytest.approx(302.3e6, rel=2e-4)
    assert count(model.tokens) == 30_720_000
    trunk = count(model.layers) + count(model.tokens) + count(model.positions) + count(model.norm)
    assert trunk == pytest.approx(333.6e6, rel=2e-4)


def test_the_base_one_has_that_of_the_authors_files():
    with torch.device("meta"):
        model = BERT(30_522, 512, 2, "classes", **SIZES["base"])
    assert sum(p.numel() for name, p in model.named_parameters() if "answer" not in name) == 109_482_240


def test_one_layer_by_hand():
    torch.manual_seed(0)
    model = small("tags", num_layers=1).double().eval()
    x = rows()
    h = model.norm(model.tokens(x) + model.positions(torch.arange(10)) + model.segments.weight[0])
    layer = model.layers[0]
    q, k, v = layer.attention.branch.query_key_value(h).split(12, -1)
    heads = []
    for part in range(3):
        take = slice(4 * part, 4 * part + 4)
        scores = q[..., take] @ k[..., take].transpose(1, 2) / 2
        heads.append(scores.softmax(-1) @ v[..., take])
    h = layer.attention.norm(h + layer.attention.branch.out(torch.cat(heads, -1)))
    network = layer.feed_forward.branch
    h = layer.feed_forward.norm(h + network.narrow(F.gelu(network.widen(h))))
    torch.testing.assert_close(model(x), model.answer(h))


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    model = BERT(7, 4, 7, dim=4, num_layers=1, num_heads=2, sep=2)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.5 * torch.randn_like(p))
    check_gradients(model, torch.tensor([[1, 5, 2, 6], [1, 4, 2, 0]]), most=12)


@pytest.mark.parametrize("head", HEADS)
def test_padding_changes_nothing(head):
    torch.manual_seed(0)
    model = small(head).double().eval()
    x = rows(T=6)
    x[:, 2] = SEP
    longer = torch.cat([x, torch.full((4, 4), PAD)], 1)
    with torch.no_grad():
        short, long = model(x), model(longer)
        model.tokens.weight[PAD] += 9.0
        other = model(longer)
    if head != "classes":
        if head == "span":
            assert bool((long[:, 6:] == -1e4).all())
        long, other = long[:, :6], other[:, :6]
    torch.testing.assert_close(long, short)
    if head != "tokens":  # whose scores of the word `pad` itself are made of that embedding
        assert torch.equal(other, long)


def test_segments_begin_behind_the_first_separator():
    x = torch.tensor([[CLS, 5, SEP, 6, SEP, PAD], [CLS, 5, 6, 7, SEP, PAD], [CLS, 5, 6, 7, 8, 9]])
    assert small()._segment(x).tolist() == [[0, 0, 0, 1, 1, 0], [0] * 6, [0] * 6]
    assert small(sep=None)._segment(x).tolist() == [[0] * 6] * 3
    assert small(pad=None)._segment(x)[0].tolist() == [0, 0, 0, 1, 1, 1]


def test_it_looks_both_ways():
    torch.manual_seed(0)
    model = small("tags").eval()
    x = rows(B=1)
    changed = x.clone()
    changed[0, 9] = 4 if int(x[0, 9]) != 4 else 5
    with torch.no_grad():
        moved = (model(x) - model(changed)).abs().amax(-1)[0]
    assert bool((moved > 0).all())


def test_scores_of_words_can_be_put_off():
    torch.manual_seed(0)
    model, x = small().eval(), rows()
    with torch.no_grad(), deferred():
        made = model(x)
    assert isinstance(made, Deferred)
    assert made.weight is model.tokens.weight
    with torch.no_grad():
        assert torch.equal(made.scores(), model(x))


def test_first_weights_are_those_of_the_authors():
    torch.manual_seed(0)
    model = BERT(500, 64, 500, dim=64, num_layers=2)
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            assert float(module.weight.detach().abs().max()) <= 0.04 + 1e-7
        if isinstance(module, nn.Linear):
            assert not bool(module.bias.any())
    assert float(model.tokens.weight.detach().std()) == pytest.approx(
        0.0176, rel=0.03
    )  # of a normal law cut off at 2 deviations


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: small("words"), UnknownName, "head"),
        (lambda: BERT(19, 10, 5), UserError, 'head="tags"'),
        (lambda: BERT(19, 10, 3, "span"), UserError, "dim_output=2"),
        (lambda: small(dim=10), UserError, "divisible by num_heads"),
        (lambda: small(pad=19), UserError, "pad"),
        (lambda: small(p_drop=1.0), UserError, "p_drop"),
        (lambda: small()(torch.zeros(2, 11, dtype=torch.long)), ShapeError, "at most 10"),
        (lambda: small()(torch.zeros(2, 5)), ShapeError, "token numbers"),
    ],
)
def test_what_does_not_fit_is_refused(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


# ── learning ──


WORDS = 8  # of each of two kinds


def grammar(B, generator, own=range(WORDS)):
    """Rows of six words of one kind, and that kind."""
    kind = torch.randint(2, (B,), generator=generator)
    drawn = torch.tensor(list(own))[torch.randint(len(own), (B, 6), generator=generator)]
    words = 4 + WORDS * kind[:, None] + drawn
    ends = torch.tensor([CLS, SEP]).expand(B, 2)
    return torch.cat([ends[:, :1], words, ends[:, 1:]], 1), kind


def hidden(x, generator):
    """One word of each row hidden, and what it was."""
    place = torch.randint(1, 7, (len(x), 1), generator=generator)
    return x.scatter(1, place, MASK), torch.full_like(x, -1).scatter(1, place, x.gather(1, place))


def train(model, loss, steps, lr, batch):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, *batch()).mean().backward()
        optimizer.step()
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_what_was_learned_of_hidden_words_tells_words_apart_that_were_never_labelled(seed):
    sizes = {"dim": 32, "num_layers": 2, "num_heads": 4, "p_drop": 0.0, "pad": PAD, "sep": SEP}
    generator, V, likelihood = torch.Generator().manual_seed(seed), 4 + 2 * WORDS, Tokens(4 + 2 * WORDS)
    torch.manual_seed(seed)
    taught = BERT(V, 8, V, "tokens", **sizes)
    words = lambda: hidden(grammar(64, generator)[0], generator)  # noqa: E731
    train(taught, lambda model, x, y: likelihood.loss(model(x), y), 150, 3e-3, words)
    few, others = grammar(32, generator, range(4)), grammar(500, generator, range(4, WORDS))
    scores = {}
    for name in ("taught", "scratch"):
        torch.manual_seed(seed)
        model = BERT(V, 8, 2, "classes", **sizes)
        if name == "taught":
            fill(model, taught.state_dict().items())
        train(model, lambda model, x, y: F.cross_entropy(model(x), y), 40, 1e-3, lambda: few)
        with torch.no_grad():
            assert float((model(few[0]).argmax(-1) == few[1]).float().mean()) == 1.0
            scores[name] = float((model(others[0]).argmax(-1) == others[1]).float().mean())
    assert scores["taught"] > 0.9 > 0.75 > scores["scratch"], scores
