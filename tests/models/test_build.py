import inspect

import pytest
import torch

import leadline as ll
from leadline.errors import UnknownName, UserError
from leadline.models import MLP, MODELS, build, choices, heads_for


def test_names_are_found_in_any_case_and_options_pass_through():
    model = build("mlp", 4, 3, hidden=(8,), residual=True)
    assert model.config == MLP(4, (8,), 3, residual=True).config


def test_an_unknown_model_answers_with_the_closest():
    with pytest.raises(UnknownName, match=r"model 'MPL'. Did you mean MLP\?"):
        build("MPL", 4, 3)


def test_an_unknown_option_answers_with_the_closest():
    with pytest.raises(UnknownName, match="MLP does not have this option. Got hiden. Did you mean hidden"):
        build("MLP", 4, 3, hiden=(8,))


def test_the_user_chooses_all_but_what_the_data_say():
    assert list(choices(MLP)) == ["hidden", "activation", "norm", "p_drop", "residual"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_text("".join(f"a line of words, number {k}\n" for k in range(60)))
    return ll.data.text(path, kind="bytes", length=8, cache=False)


@pytest.mark.parametrize(("dim", "heads"), [(384, 6), (32, 4), (96, 6), (50, 5), (7, 1)])
def test_heads_follow_a_width_that_is_named_without_them(lines, dim, heads):
    assert build("GPT", lines, lines.target.dim, dim=dim, num_layers=1).config["num_heads"] == heads


def test_heads_of_a_width_of_their_own_stay_as_many(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"one {k}\ttwo {k}\n" for k in range(40)))
    data = ll.data.text(tmp_path / "pairs.tsv", kind="bytes", length=8, cache=False)
    config = build("T5", data, data.target.dim, dim=50, num_layers=1).config
    assert (config["num_heads"], config["dim_head"]) == (4, 64)


def test_heads_of_a_huge_width_take_no_time():
    assert heads_for(2 * 10**12, 6) == 5


def test_heads_that_are_named_are_taken_at_their_word(lines):
    with pytest.raises(UserError, match="dim must be divisible by num_heads. Got dim=32, num_heads=6"):
        build("GPT", lines, lines.target.dim, dim=32, num_heads=6, num_layers=1)


@pytest.mark.parametrize("dim", [0, -4, "32", True, None])
def test_no_heads_are_chosen_for_what_is_no_width(lines, dim):
    with pytest.raises(UserError, match="dim"):
        build("GPT", lines, lines.target.dim, dim=dim, num_layers=1)


def test_a_model_of_text_says_where_text_comes_from():
    said = r"GPT must be given rows of tokens. Got rows of numbers of shape \(2,\). Name a file or folder of text"
    with pytest.raises(UserError, match=said):
        build("GPT", ll.data.moons(num=40), 1)


def asking(argument):
    return [name for name, kind in MODELS.items() if argument in inspect.signature(kind).parameters]


def test_who_reads_what_a_model_cannot_is_named(lines, tmp_path):
    with pytest.raises(UserError, match=f"Use {' or '.join(asking('level'))}, which read graphs"):
        build("MLP", ll.data.karate(), 1)
    with pytest.raises(UserError, match=f"Use {', '.join(asking('num_tokens'))}, which read tokens"):
        build("MLP", lines, 2)
    (tmp_path / "pairs.tsv").write_text("".join(f"one {k}\ttwo {k}\n" for k in range(40)))
    apart = ll.data.text(tmp_path / "pairs.tsv", kind="bytes", target_kind="characters", length=8, cache=False)
    with pytest.raises(UserError, match=f"Use {' or '.join(asking('num_source_tokens'))}, or leave target_kind out"):
        build("T5", apart, apart.target.dim)
    with pytest.raises(UnknownName, match=f"Got pool, an option of {' and '.join(asking('pool'))}. ResNet has"):
        build("ResNet", (1, 8, 8), 3, pool="last")


def test_words_begin_as_frequent_as_they_are_in_the_data(tmp_path):
    (tmp_path / "lines.txt").write_text("aaab\n" * 60)
    data = ll.data.text(tmp_path / "lines.txt", task="masked", kind="bytes", length=8, cache=False)
    bias = build("BERT", data, data.target.dim, dim=16, num_layers=1, num_heads=2).bias.detach()
    one, other, never = (bias[data.inputs.tokenizer.encode(letter)[0]] for letter in "abz")
    assert one > other + 1 > never + 2, "the letter a comes three times as often as b, and z not at all"
    torch.testing.assert_close(bias.exp().sum(), torch.tensor(1.0))


def test_a_model_that_is_built_with_its_graph_can_be_asked_at_once():
    data = ll.data.karate()
    assert build("GCN", data, 1)(data.test.x).shape == (len(data.test), 1)
