"""The recurrent encoder-decoder: its equations by hand, padding, steps, words of its own, and what attention is for."""

import pytest
import torch
from torch import nn

from leadline.engine.decoder import Cached, Recomputing
from leadline.errors import ShapeError, UnknownName, UserError
from leadline.layers import noise
from leadline.models import EncoderDecoder
from leadline.testing import check_model
from leadline.text.beam import beam_search
from leadline.text.decoding import generate

V, S, T = 13, 6, 5
KINDS = [
    {},
    {"cell": "gru", "attention": "additive", "inside": True},
    {"cell": "elman", "attention": "dot", "bidirectional": False, "tied": False},
    {"cell": "gru", "attention": "none"},
]


def small(**options):
    torch.manual_seed(0)
    sizes = {"num_tokens": V, "length": T, "len_source": S, "dim": 8, "num_layers": 2, "p_drop": 0.0}
    return EncoderDecoder(**{**sizes, **options})


def rows(num=3, seed=0):
    """Sources of different lengths, and whole targets."""
    x = torch.randint(1, V, (num, S + T), generator=torch.Generator().manual_seed(seed))
    for row in range(num):
        x[row, max(1, S - row) : S] = 0
    return x


@pytest.mark.parametrize("options", [*KINDS, {"p_drop": 0.3, "p_own": 0.5, "num_source_tokens": V + 2}])
def test_it_keeps_the_contract(options):
    check_model(small(**options), rows())


def test_its_equations_by_hand():
    """One layer, one direction: a loop of plain matrix products."""
    model, x = small(cell="elman", num_layers=1, bidirectional=False).double().eval(), rows(1)
    x[0, S - 2 : S] = 0
    state = {name: value.detach() for name, value in model.named_parameters()}

    def cell(place, x_t, h):
        part = lambda name: state[f"{place}.0.branch.kernel.{name}_l0"]  # noqa: E731
        return torch.tanh(part("weight_ih") @ x_t + part("bias_ih") + part("weight_hh") @ h + part("bias_hh"))

    def normal(name, h):
        h = (h - h.mean()) / (h.var(unbiased=False) + 1e-5).sqrt()
        return h * state[f"{name}.weight"] + state[f"{name}.bias"]

    E, h, m = state["embed.weight"], torch.zeros(8).double(), []
    for word in x[0, : S - 2].tolist():
        h = cell("encoder", normal("encoder.0.norm", E[word]), h)
        m.append(normal("leave_source", E[word] + h))
    d, seen = torch.tanh(state["bridges.0.weight"] @ h + state["bridges.0.bias"]), torch.stack(m)
    scores, weights = [], []
    for word in x[0, S:].tolist():
        d = cell("decoder", normal("decoder.0.norm", E[word]), d)
        q = normal("leave", E[word] + d)
        a = torch.softmax(seen @ state["score.form"].T @ q / 8**0.5, 0)
        scores.append(E @ torch.tanh(state["join.weight"] @ torch.cat([q, a @ seen]) + state["join.bias"]))
        weights.append(torch.cat([a, torch.zeros(2).double()]))
    torch.testing.assert_close(model(x)[0], torch.stack(scores))
    torch.testing.assert_close(model.alignment(x)[0], torch.stack(weights))


@pytest.mark.parametrize("options", KINDS)
def test_padding_the_future_and_batch_mates_change_nothing(options):
    model, x = small(**options).double().eval(), rows()
    wide = small(**options, len_source=S + 4).double().eval()
    wide.load_state_dict(model.state_dict())
    padded = torch.cat([x[:, :S], torch.zeros(3, 4, dtype=torch.long), x[:, S:]], 1)
    whole = model(x)
    torch.testing.assert_close(wide(padded), whole, rtol=0, atol=1e-12)
    later = x.clone()
    later[:, S + 3 :] = 0
    torch.testing.assert_close(model(later)[:, :3], whole[:, :3], rtol=0, atol=1e-12)
    torch.testing.assert_close(model(x[2:]), whole[2:], rtol=0, atol=1e-12)
    assert not torch.equal(model(later)[:, 3], whole[:, 3])


@pytest.mark.parametrize("options", KINDS)
def test_steps_give_what_the_whole_target_gives(options):
    model, x = small(**options).double().eval(), rows()
    with torch.no_grad():
        whole, cache = model(x), model.cache(3, T, dtype=torch.float64)
        model.read(x[:, :S], cache)
        cache.at = torch.arange(2).expand(3, 2)
        cache.there = cache.at < torch.tensor([[2], [1], [2]])  # the second row has read one word, the others two
        torch.testing.assert_close(model.step(x[:, S : S + 2], cache)[0], whole[0, :2], rtol=0, atol=1e-12)
        cache.at, cache.there, order = torch.tensor([[2], [1], [2]]), None, torch.tensor([2, 1, 1])
        cache.reorder(order)
        words = x[order].gather(1, S + cache.at)
        found = model.step(words, cache)[:, 0]
        torch.testing.assert_close(found, whole[order, cache.at[:, 0]], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", KINDS)
def test_words_come_as_if_rows_were_read_anew_each_time(options):
    model, x = small(**options).eval(), rows()

    def whole(written):
        return model(torch.cat([x[:, :S].repeat_interleave(len(written) // 3, 0), written], 1))

    ways = []
    for scorer in (lambda: Cached(model, source=x[:, :S]), lambda: Recomputing(whole, T)):
        greedy = generate(scorer(), [[1]] * 3, T - 1)
        beams = beam_search(scorer(), [[1]] * 3, T - 1, beams=3)
        ways.append([[text.tokens for text in greedy], [texts[0].tokens for texts in beams]])
    assert ways[0] == ways[1]


# ── words of its own ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", KINDS[:2])
def test_without_words_of_its_own_the_loop_is_the_whole_target(options):
    model, x, keys = small(**options, p_drop=0.4, p_own=1e-12).double().train(), rows(), torch.tensor([7, 8, 9])
    with noise.keyed(keys):
        loop = model(x)
        model.p_own = 0.0
        torch.testing.assert_close(model(x), loop, rtol=0, atol=1e-12)


@torch.no_grad()
def test_its_own_words_are_drawn_from_its_scores_and_belong_to_the_example():
    model, keys = small(p_own=1.0).double().train(), torch.arange(4000) * 7919
    x = rows(1).expand(4000, -1).clone()
    with noise.keyed(keys):
        scores = model(x)
    plain = model.eval()(x[:1])[0]
    torch.testing.assert_close(scores[:, 0], plain[:1].expand(4000, -1))  # the first word is given
    second = scores[:, 1]
    known = torch.stack([model(torch.cat([x[:1, : S + 1], torch.full((1, 1), v)], 1))[0, 1] for v in range(V)])
    drawn = torch.cdist(second, known).argmin(1)  # which word was read shows in what comes behind it
    share = torch.bincount(drawn, minlength=V) / 4000
    assert float((share - plain[0].softmax(-1)).abs().max()) < 0.03
    with noise.keyed(keys[5:7]):
        torch.testing.assert_close(model.train()(x[5:7]), scores[5:7], rtol=0, atol=1e-12)


@torch.no_grad()
def test_half_of_the_words_are_its_own():
    model, x = small(p_own=0.5).double().train(), rows(1).expand(2000, -1).clone()
    with noise.keyed(torch.arange(2000) * 104729):
        second = model(x)[:, 1]
    true = model.eval()(x[:1])[0, 1]
    kept = float((second - true).abs().amax(1).lt(1e-9).double().mean())  # its own word may be the true one too
    chance = float(model(x[:1])[0, 0].softmax(-1)[x[0, S + 1]])
    assert kept == pytest.approx(0.5 + 0.5 * chance, abs=0.04)


# ── learning ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def share_turned_round(words, **options):
    """The share of words that are right behind 80 steps, where the target is the source from its end."""
    torch.manual_seed(0)
    model = EncoderDecoder(10, words, words, cell="gru", dim=32, num_layers=1, p_drop=0.0, **options)
    rule, stream = torch.optim.Adam(model.parameters(), 0.01), torch.Generator().manual_seed(1)

    def batch(num):
        source = torch.randint(2, 10, (num, words), generator=stream)
        y = source.flip(1)
        return torch.cat([source, torch.ones(num, 1, dtype=torch.long), y[:, :-1]], 1), y

    for _ in range(80):
        x, y = batch(24)
        rule.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rule.step()
    x, y = batch(200)
    with torch.no_grad():
        return float((model(x).argmax(-1) == y).float().mean())


def test_it_turns_long_sentences_round_and_cannot_through_a_fixed_vector():
    assert share_turned_round(8) > 0.85
    assert share_turned_round(8, attention="none") < 0.65  # of 3 words it has nearly all: attention-beats-fixed-vector


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dim": 7}, UserError, "dim must be even in two directions"),
        ({"cell": "lsmt"}, UnknownName, "Did you mean lstm"),
        ({"attention": "aditive"}, UnknownName, "Did you mean additive"),
        ({"attention": "none", "inside": True}, UserError, "attention that stands inside"),
        ({"p_own": 1.5}, UserError, "p_own must be"),
        ({"pad": 500}, UserError, "pad must be a whole number from 0 to"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        small(**change)


def test_what_does_not_fit_is_refused():
    model = small(attention="none")
    with pytest.raises(ShapeError, match="a source of 6 tokens and a target of 1 to 5"):
        model(torch.ones(2, S, dtype=torch.long))
    with pytest.raises(ShapeError, match="sources must be 2 rows"):
        model.read(torch.ones(3, S, dtype=torch.long), model.cache(2, T))
    with pytest.raises(UserError, match="attention to see"):
        model.alignment(rows())
