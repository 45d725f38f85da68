"""ImageGPT: counts of the literature, transformers' scores, pictures as rows of colours and back, and completion."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.cli import main
from leadline.data.colours import Colours, colours
from leadline.engine.decoder import Cached, Recomputing
from leadline.errors import DataError, ShapeError, UserError
from leadline.models import ImageGPT, image_gpt
from leadline.testing import check_gradients, check_model
from leadline.text.decoding import generate

SMALL = {"num_tokens": 9, "length": 17, "dim_output": 8, "dim": 16, "num_layers": 2, "num_heads": 2}


def striped(num, size=6):
    """Grey pictures whose rows are all alike: each has stripes of its own, and three rows tell the other three."""
    torch.manual_seed(0)
    line = torch.randint(0, 2, (num, 1, 1, size)) * 255
    x = line.expand(num, 1, size, size).contiguous().to(torch.uint8)
    y = line[:, 0, 0, 0].div(255).long()
    split = lambda low, high: ll.data.Split(x[low:high], y[low:high])  # noqa: E731
    cuts = (split(0, num // 2), split(num // 2, 3 * num // 4), split(3 * num // 4, num))
    return ll.data.Data(
        *cuts, ll.data.Target("binary", classes=("dark", "light")), ll.data.Pictures.of(x), name="stripes"
    )


@pytest.mark.parametrize(
    ("name", "side", "millions"), [("S", 32, 76), ("M", 48, 455), ("L", 48, 1362), ("XL", 64, 6801)]
)
def test_parameters_are_those_of_the_literature(name, side, millions):
    with torch.device("meta"):
        model = ImageGPT(513, side * side, 512, **image_gpt.SIZES[name])
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize("options", [{}, {"head": "classes", "dim_output": 3}, {"norm": "rms", "p_drop": 0.5}])
def test_it_keeps_the_contract_with_any_options(options):
    check_model(ImageGPT(**{**ImageGPT.tiny().config, **options}))


def test_derivatives_are_those_of_finite_differences():
    torch.manual_seed(0)
    model = ImageGPT(4, 3, 3, dim=4, num_layers=1, num_heads=2, norm="rms")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    check_gradients(model, torch.tensor([[3, 0, 1], [3, 2, 2]]), most=5)


@torch.no_grad()
def test_scores_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ImageGPTConfig(
        vocab_size=9, n_positions=12, n_embd=16, n_layer=3, n_head=4, activation_function="gelu"
    )
    theirs = transformers.ImageGPTForCausalImageModeling(config).eval()
    for parameter in theirs.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
    ours = ImageGPT(9, 12, 8, dim=16, num_layers=3, num_heads=4, norm="rms").eval()
    read = theirs.state_dict()
    found = {
        "embed.weight": read["transformer.wte.weight"],
        "position.weight": read["transformer.wpe.weight"],
        "leave.weight": read["transformer.ln_f.weight"],
        "answer.weight": read["lm_head.weight"],
    }
    maps = {
        "attention.branch.query_key_value": "attn.c_attn",
        "attention.branch.out": "attn.c_proj",
        "feed_forward.branch.widen": "mlp.c_fc",
        "feed_forward.branch.narrow": "mlp.c_proj",
    }
    for k in range(3):
        for own, other in maps.items():
            found[f"blocks.{k}.{own}.weight"] = read[f"transformer.h.{k}.{other}.weight"].T
            found[f"blocks.{k}.{own}.bias"] = read[f"transformer.h.{k}.{other}.bias"]
        for own, other in (("attention", "ln_1"), ("feed_forward", "ln_2")):
            found[f"blocks.{k}.{own}.norm.weight"] = read[f"transformer.h.{k}.{other}.weight"]
    ours.load_state_dict(found)
    x = torch.randint(9, (3, 12))
    torch.testing.assert_close(ours(x), theirs(input_ids=x).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 16))
def test_later_pixels_change_nothing_and_steps_are_the_whole(seed, at):
    torch.manual_seed(seed)
    model = ImageGPT(**SMALL).double().eval()
    x = torch.randint(8, (2, 17))
    scores = model(x)
    other = x.clone()
    other[:, at:] = (other[:, at:] + 1) % 8
    torch.testing.assert_close(model(other)[:, :at], scores[:, :at])
    cache = model.cache(2, 17, dtype=torch.float64)
    cache.at = torch.arange(at).expand(2, at)
    torch.testing.assert_close(model.step(x[:, :at], cache), scores[:, :at])
    cache.at = torch.full((2, 1), at)
    torch.testing.assert_close(model.step(x[:, at : at + 1], cache), scores[:, at : at + 1])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.sampled_from([1, 3]), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_colours_go_forth_and_back(bits, channels, Y, X, seed):
    inputs = Colours((Y, X), channels, bits)
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(inputs.num_colours, (3, Y * X), generator=g)
    pictures = inputs.pictures_of(tokens)
    assert torch.equal(inputs.tokens(pictures), tokens)
    x = torch.randint(256, (3, channels, Y, X), generator=g, dtype=torch.uint8)
    near = inputs.pictures_of(inputs.tokens(x)).int() - x.int()
    assert int(near.abs().max()) < 256 / 2**bits
    read = inputs.encode(x)
    assert bool((read[:, 0] == inputs.num_colours).all())
    assert torch.equal(read[:, 1:], inputs.tokens(x)[:, :-1])
    assert torch.equal(inputs.encode(inputs.read(x)), read)


def test_each_colour_has_its_bits():
    pixels = torch.tensor([[255, 31, 0], [0, 32, 0], [0, 255, 96]], dtype=torch.uint8)  # red, green, blue of each
    assert Colours((1, 3)).tokens(pixels.T.reshape(1, 3, 1, 3)).tolist() == [[7 * 64, 8, 7 * 8 + 3]]
    assert Colours((1, 1), 3).num_colours == 512 and Colours((1, 1), 1).num_colours == 8


def test_data_of_colours_ask_for_the_next_pixel():
    pictures = ll.data.scenes(num=20, size=32, task="classes")
    data = colours(pictures, size=(8, 4))
    x = data.inputs.encode(data.train.x)
    assert x.shape == (len(data.train), 32) and data.train.y.dtype == torch.int16
    assert torch.equal(x[:, 1:], data.train.y[:, :-1].long())
    assert data.target.dim == 512 and data.inputs.sizes((3, 8, 4)) == {"num_tokens": 513, "length": 33}
    classes = colours(pictures, task="classes")
    assert classes.inputs.encode(classes.val.x).shape == (len(classes.val), 32 * 32 + 1)
    assert classes.target == pictures.target
    again = ll.data.inputs_from("Colours", data.inputs.config)
    assert torch.equal(again.encode(data.test.x), data.inputs.encode(data.test.x))
    for wrong in (ll.data.iris(), "pictures"):
        with pytest.raises(UserError, match="pictures"):
            colours(wrong)


def test_what_are_no_colours_is_refused():
    inputs = Colours((2, 2), 1)
    with pytest.raises(DataError, match="start token"):
        inputs.pictures_of(torch.tensor([[8, 0, 0, 0]]))
    with pytest.raises(ShapeError, match="at most 4"):
        inputs.pictures_of(torch.zeros(1, 5))
    with pytest.raises(ShapeError, match="read"):
        inputs.encode(torch.zeros(1, 1, 3, 3))
    with pytest.raises(ShapeError, match="at most 17"):
        ImageGPT(**SMALL)(torch.zeros(1, 18, dtype=torch.long))


def test_it_learns_stripes_completes_pictures_and_is_a_beginning_for_classes():
    pictures = striped(160)
    data = colours(pictures, bits=1)
    model = ll.models.build("ImageGPT", data, data.target.dim, dim=32, num_layers=1)
    settings = {"lr": 1e-2, "batch": 40, "progress": False, "threads": 1, "compile": "off"}
    run = ll.fit(model, data, epochs=60, **settings)
    assert run.evaluate("test")["accuracy"] > 0.85  # the first row is chance: (½ 6 + 30) / 36 at best
    upper = data.test.x[:4].clone()
    rows = [[2, *row] for row in data.inputs.tokens(upper)[:, :18].tolist()]
    for scorer in (Cached(run.model), Recomputing(run.model, length=37)):
        found = generate(scorer, rows, most=18)
        whole = torch.tensor([row[1:] + one.tokens for row, one in zip(rows, found, strict=True)])
        made = data.inputs.pictures_of(whole)
        assert made.shape == (4, 1, 6, 6) and float((made == upper).float().mean()) > 0.95
    view = ll.lens.position_similarity(run.model, grid=(6, 6))
    assert view.around[6, 5] > view.around[5, 6]  # the pixel above says more of stripes than that at the left
    asked = colours(pictures, task="classes", bits=1)
    again = ll.fit(run.model.classifying(1), asked, epochs=25, **settings)
    assert again.evaluate("test")["accuracy"] > 0.9


def test_pictures_from_a_shell_are_told_what_to_do(tmp_path, capsys):
    words = ["train", "scenes", "--task", "classes", "--num", "20", "--size", "16", "--model", "ImageGPT"]
    assert main([*words, "--folder", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "ImageGPT must be given rows of tokens. Got pictures of shape (3, 16, 16)" in told
    assert "ll.data.colours(pictures)" in told and "ViT" in told
