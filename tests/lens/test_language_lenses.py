"""What is said after each layer, which tokens an answer comes from, who reaches whom: against brute force."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.errors import ShapeError, UnknownName, UserError
from leadline.layers.masks import Causal, Global, Padding, Window
from leadline.lens import (
    attention_gradients,
    attention_map,
    embedding_neighbours,
    interaction,
    logit_lens,
    measured_reach,
    next_token,
    reach,
    token_attribution,
)
from leadline.likelihoods import Tokens
from leadline.models import BERT, GPT, T5, Transformer, ViT, lora


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def loud(model, size=0.7):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(size * torch.randn_like(p))
    return model.double()


def small_gpt(layers=3):
    return loud(GPT(11, 6, dim=8, num_layers=layers, num_heads=2))


X = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])


def test_after_each_layer_stands_what_its_stream_would_say():
    net = small_gpt().train()
    before = state(net)
    view = logit_lens(net, X)
    assert net.training and all(torch.equal(before[name], value) for name, value in state(net).items())
    net.eval()
    with torch.no_grad():
        h = net.embed(X) + net.place.weight[:6]
        for k in range(4):
            scores = net.leave(h) @ net.embed.weight.T
            p = scores.softmax(-1)
            for row in range(2):
                for t in range(5):
                    y = int(X[row, t + 1])
                    assert view.probability[k, row, t] == pytest.approx(float(p[row, t, y]))
                    assert view.rank[k, row, t] == 1 + int((scores[row, t] > scores[row, t, y]).sum())
                    assert view.said[k, row, t] == int(scores[row, t].argmax())
            if k < 3:
                h = net.layers[k](h, Causal(), None, None, None)
    assert (view.rank[:, :, 5] == 0).all() and np.isnan(view.probability[:, :, 5]).all()
    assert view.median_rank.shape == (4,) and view.mean_probability[3] == pytest.approx(
        view.probability[3, :, :5].mean()
    )
    assert view.plot() is not None and json.dumps(view.to_dict())


def test_encoders_and_translators_have_layers_too():
    masked = BERT(11, 6, 11, dim=8, num_layers=2, num_heads=2)
    y = torch.full_like(X, -1)
    y[:, 2] = 7
    view = logit_lens(masked, (X, y))
    assert view.layers == ("layers.0", "layers.1") and (view.rank[:, :, 2] >= 1).all()
    for kind in (Transformer, T5):
        net = kind.tiny().eval()
        x = torch.randint(1, 11, (2, 9))
        view = logit_lens(net, x, y=x[:, 5:])
        assert view.layers == ("decoder.0",)
        p = net(x).softmax(-1).gather(-1, x[:, 5:, None])[..., 0]
        assert np.allclose(view.probability[-1], p.detach(), atol=1e-6)
    with pytest.raises(ShapeError, match="every place"):
        logit_lens(BERT.tiny(), X)
    with pytest.raises(UserError, match="list of layers"):
        logit_lens(small_gpt(), X, layers="nowhere")


@pytest.mark.parametrize("kind", (GPT, BERT, Transformer))
def test_gradients_of_tokens_are_those_of_differences(kind):
    net = loud(kind.tiny(), 0.4).eval()
    x = torch.randint(1, 11, (1, *net.input_shape))
    table = net.tokens if kind is BERT else net.embed
    place = 1
    view = token_attribution(net, x, target=2, place=place, kind="times_input")
    slope = token_attribution(net, x, target=2, place=place, kind="gradient")

    def score(t, step):
        """The output with e_t moved by `step` times a direction."""
        done = []

        def move(_, args, out):
            first = sum(part.shape[1] for part in done)
            done.append(out)
            out = out.clone()
            if first <= t < first + out.shape[1]:
                out[0, t - first] += step
            return out

        handle = table.register_forward_hook(move)
        with torch.no_grad():
            out = net(x)
        handle.remove()
        return float(out[0, 2] if out.dim() == 2 else out[0, place, 2])

    for t in range(x.shape[1]):
        e = table.weight[x[0, t]].detach()
        step = 1e-5
        along = (score(t, step * e) - score(t, -step * e)) / (2 * step)
        assert view.values[0, t] == pytest.approx(along, rel=1e-5, abs=1e-8)
        parts = [(score(t, step * d) - score(t, -step * d)) / (2 * step) for d in torch.eye(8, dtype=torch.float64)]
        assert slope.values[0, t] == pytest.approx(math.hypot(*parts), rel=1e-5, abs=1e-8)
    if kind is GPT:
        assert (view.values[0, 2:] == 0).all()  # later words say nothing
    assert view.plot() is not None


def test_integrated_shares_add_up():
    net = loud(GPT(11, 6, dim=8, num_layers=2, num_heads=2), 0.3).eval()
    view = token_attribution(net, X, target=4, kind="integrated", draws=100)
    handle = net.embed.register_forward_hook(lambda _, __, out: 0 * out)
    with torch.no_grad():
        base = net(X)[:, -1, 4]
    handle.remove()
    assert np.allclose(view.values.sum(1), view.score - base.numpy(), atol=1e-4)


def test_occlusion_is_exact_and_padding_hides_without_a_trace():
    net = loud(BERT(11, 6, 3, head="classes", dim=8, num_layers=2, num_heads=2, pad=0), 0.4).eval()
    before = state(net)
    view = token_attribution(net, X, kind="occlusion", by=0)
    best = net(X).argmax(1)
    assert view.target.tolist() == best.tolist() and (view.place == -1).all()
    for t in range(6):
        hidden = X.clone()
        hidden[:, t] = 0
        want = (net(X) - net(hidden))[[0, 1], best].detach()
        assert np.allclose(view.values[:, t], want)
    assert all(torch.equal(before[name], value) for name, value in state(net).items())


def test_rollout_asks_the_place_of_the_answer():
    net = small_gpt()
    view = token_attribution(net, X, place=3, kind="rollout")
    assert np.allclose(view.values, attention_map(net, X).rollout[:, 3]) and np.allclose(view.values.sum(1), 1)
    pooled = BERT.tiny()
    assert np.allclose(token_attribution(pooled, X, kind="rollout").values, attention_map(pooled, X).rollout[:, 0])
    with pytest.raises(UnknownName):
        token_attribution(net, X, kind="rolout")
    with pytest.raises(ShapeError, match="tokens"):
        token_attribution(ViT.tiny(), torch.randn(1, 1, 8, 8))


def test_eight_patterns_and_how_many_pairs_they_allow():
    view = interaction(length=16)
    counts = dict(zip(view.names, view.counts.tolist()))
    assert len(counts) == 8
    assert counts["encoder"] == 256 and counts["decoder"] == 16 * 17 // 2
    assert counts["band, encoder"] == 16 * 5 - 6 and counts["band, decoder"] == 16 * 3 - 3
    assert counts["every 2nd, decoder"] == 16 * 3 - 2 - 4 and counts["every 3rd, decoder"] == 16 * 3 - 3 - 6
    both = {(i, j) for i in range(16) for j in range(16) if abs(i - j) <= 2 or i in (0, 1) or j in (0, 1)}
    assert counts["band and two global tokens"] == len(both)
    chosen = {0, 5, 10, 15}
    some = {(i, j) for i in range(16) for j in range(i + 1) if i - j <= 2 or i in chosen or j in chosen}
    assert counts["band and chosen tokens, decoder"] == len(some)
    assert view.plot() is not None
    assert interaction(Window(0), 5).counts.tolist() == [5]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 20))
def test_a_band_reaches_as_far_as_its_layers_times_its_width(width, layers, length):
    view = reach(Window(width) & Causal(), length, layers)
    assert view.furthest.tolist() == [min(width * l, length - 1) for l in range(1, layers + 1)]  # noqa: E741


def test_a_global_token_joins_all_in_two_layers():
    view = reach(Window(1) | Global((0,)), 12, 2)
    assert not view.matrices[0].all() and view.matrices[1].all()
    assert view.plot() is not None


@pytest.mark.parametrize("window", (None, 1, 2))
def test_what_masks_allow_is_what_a_model_does(window):
    net = GPT(11, 9, dim=8, num_layers=4, num_heads=2, window=window)
    near = Causal() if window is None else Causal() & Window(window)
    measured = measured_reach(net, torch.randint(11, (9,)))
    assert (measured.matrices == reach([Causal(), near], 9, 4).matrices).all()


def test_what_masks_allow_is_what_an_encoder_does():
    net = BERT(11, 8, 3, head="classes", dim=8, num_layers=2, num_heads=2, pad=0)
    row = torch.tensor([[3, 4, 5, 6, 0, 0]])
    measured = measured_reach(net, row).matrices
    there = Padding(row != 0)
    wanted = reach(there, 6, 2).matrices
    # a padded place that is changed is none any more: only words are compared
    assert (measured[:, :, :4] == wanted[:, :, :4]).all()


@pytest.mark.parametrize("layers", [None, "encoder"])
def test_layers_of_a_part_of_the_row_have_no_reach_of_all(layers):
    with pytest.raises(
        ShapeError, match=r"a place for each token .* Got 9 tokens, .* in (de|en)coder.0 of Transformer"
    ):
        measured_reach(Transformer.tiny(), torch.randint(1, 11, (9,)), layers=layers)


def test_neighbours_are_the_largest_cosines():
    net = small_gpt()
    view = embedding_neighbours(net, [3, 0], num=4, centred=False)
    e = net.embed.weight.detach()
    for row, token in enumerate((3, 0)):
        near = torch.nn.functional.cosine_similarity(e[token][None], e, dim=1)
        near[token] = -2
        assert view.neighbours[row].tolist() == near.argsort(descending=True)[:4].tolist()
        assert np.allclose(view.cosine[row], near.sort(descending=True).values[:4])
    with torch.no_grad():
        net.embed.weight[7] = 2 * net.embed.weight[3] - net.embed.weight.mean(0)
    assert view.plot() is not None and embedding_neighbours(net, 3).words == ("3",)
    with pytest.raises(UserError, match="table"):
        embedding_neighbours(ViT.tiny(), 0)
    with pytest.raises(UserError, match="run"):
        embedding_neighbours(net, "cat")


@pytest.mark.parametrize(
    "lens, options, message",
    [
        (next_token, {"place": 8}, "place must be a whole number from -4 to 3. Got place=8"),
        (next_token, {"place": 1.5}, "place must be a whole number from -4 to 3"),
        (next_token, {"row": 2}, "row must be a whole number from 0 to 1. Got row=2"),
        (token_attribution, {"place": -5}, "place must be a whole number from -4 to 3. Got place=-5"),
        (token_attribution, {"target": 99}, "target must be a whole number from -11 to 10. Got target=99"),
    ],
)
def test_a_place_beyond_the_scores_is_told(lens, options, message):
    with pytest.raises(UserError, match=message):
        lens(GPT.tiny(), torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]]), **options)


def test_neighbours_take_any_whole_number_and_tell_what_is_none():
    net = small_gpt()
    assert embedding_neighbours(net, next_token(net, X).tokens[0], num=2).words
    for wrong, message in ((2.5, "token must be a whole"), (None, "token must be"), ([], "there must be a token")):
        with pytest.raises(UserError, match=message):
            embedding_neighbours(net, wrong)


def test_the_next_token_and_its_tail():
    net = small_gpt()
    view = next_token(net, X, row=1, place=3, top_k=3, top_p=0.8, temperature=2.0)
    p = (net.eval()(X)[1, 3] / 2).softmax(-1).detach()
    assert np.allclose(view.probability, p.sort(descending=True).values) and view.words == ("2", "6", "5", "3")
    assert view.top_mass == pytest.approx(float(p.topk(3).values.sum()))
    mass = p.sort(descending=True).values.cumsum(0)
    assert view.num_nucleus == int((mass < 0.8).sum()) + 1
    assert view.entropy == pytest.approx(float(torch.distributions.Categorical(p).entropy()))
    assert view.plot() is not None
    with pytest.raises(ShapeError, match="every place"):
        next_token(BERT.tiny(), X)


def test_gradients_of_queries_keys_and_values_and_shares_of_branches():
    net = small_gpt().train()
    before, family = state(net), Tokens(11)
    y = torch.randint(11, X.shape)
    view = attention_gradients(net, (X, y), family)
    assert all(torch.equal(before[name], value) for name, value in state(net).items())
    assert all(p.grad is None for p in net.parameters())
    net.eval()
    loss = family.loss(net(X), y).mean()
    weight = net.layers[1].look.branch.query_key_value.weight
    (slope,) = torch.autograd.grad(loss, weight)
    assert view.loss == pytest.approx(float(loss.detach()))
    assert np.allclose(view.norms[1, :3], [float(part.norm()) for part in slope.split(8)])
    assert np.allclose(view.weights[1, :3], [float(part.norm()) for part in weight.detach().split(8)])
    assert view.branches[:2] == ("layers.0.look", "layers.0.think") and len(view.share) == 6
    with torch.no_grad():
        h = net.embed(X) + net.place.weight[:6]
        out = net.layers[0].look.branch(net.layers[0].look.norm(h), Causal())
    assert view.stream[0] == pytest.approx(float(h.square().mean().sqrt()))
    assert view.share[0] == pytest.approx(float(out.square().mean().sqrt() / h.square().mean().sqrt()))
    assert view.plot() is not None


def test_attention_that_is_held_still_has_gradients_too():
    net, y = small_gpt(), torch.randint(11, X.shape)
    plain = attention_gradients(net, (X, y), Tokens(11))
    net.requires_grad_(False)
    held = attention_gradients(net, (X, y), Tokens(11))
    assert not any(p.requires_grad for p in net.parameters()) and np.array_equal(held.norms, plain.norms)
    updated = lora(net.requires_grad_(True), rank=2)  # which begins as the model was
    moving = [p.requires_grad for p in updated.parameters()]
    view = attention_gradients(updated, (X, y), Tokens(11))
    assert np.allclose(view.norms, plain.norms, rtol=1e-4) and np.allclose(view.weights, plain.weights)
    assert [p.requires_grad for p in updated.parameters()] == moving


def test_at_first_weights_queries_and_keys_learn_far_less_than_values():
    net = GPT(50, 16, dim=32, num_layers=4, num_heads=4)
    x = torch.randint(50, (8, 16))
    query, key, value, _ = attention_gradients(net, (x, torch.randint(50, x.shape)), Tokens(50)).norms.T
    assert (query < 0.2 * value).all() and (key < 0.2 * value).all()
    crossed = attention_gradients(
        Transformer.tiny(), (torch.randint(1, 11, (4, 9)), torch.randint(11, (4, 4))), Tokens(11)
    )
    assert crossed.names[-1] == "decoder.0.ask.branch" and np.isfinite(crossed.norms).all()


@pytest.fixture
def spans(tmp_path, monkeypatch):
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    rows = [{"question": f"who is {k}?", "context": f"a cat is {k}", "answer": "cat"} for k in range(12)]
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = ll.data.text(tmp_path / "asked.jsonl", task="spans", kind="bytes")
    model = ll.models.build("BERT", data, 2, dim=8, num_layers=1, num_heads=2)
    return ll.fit(model, data, epochs=1, progress=False, folder=None)


def test_a_model_that_scores_no_tokens_is_refused_by_lenses_of_language(spans):
    for lens in (logit_lens, next_token):
        with pytest.raises(ShapeError, match="must score tokens"):
            lens(spans, [("who is 3?", "a cat is 3")])


def test_rows_as_they_are_stored_and_tuples_of_texts_are_read(spans):
    raw = spans.data.test.x[:1]
    assert raw.dtype == torch.int16
    text = spans.data.inputs.encode(raw)
    np.testing.assert_array_equal(attention_map(spans, raw).weights[0], attention_map(spans, text).weights[0])
    assert attention_map(spans, ("who is 3?", "who is 4?")).weights
