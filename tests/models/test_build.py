import pytest

from leadline.errors import UnknownName
from leadline.models import MLP, build, choices


def test_names_are_found_in_any_case_and_options_pass_through():
    model = build("mlp", 4, 3, hidden=(8,), residual=True)
    assert model.config == MLP(4, (8,), 3, residual=True).config


def test_an_unknown_model_answers_with_the_closest():
    with pytest.raises(UnknownName, match=r"model 'MPL'. Did you mean MLP\?"):
        build("MPL", 4, 3)


def test_an_unknown_option_answers_with_the_closest():
    with pytest.raises(UnknownName, match="MLP must be given options that it has. Got hiden. Did you mean hidden"):
        build("MLP", 4, 3, hiden=(8,))


def test_the_user_chooses_all_but_what_the_data_say():
    assert list(choices(MLP)) == ["hidden", "activation", "norm", "p_drop", "residual"]
