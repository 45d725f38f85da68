import pytest

import leadline as ll
from leadline.errors import UnknownName, UserError
from leadline.models import MLP, build, choices, heads_for


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
