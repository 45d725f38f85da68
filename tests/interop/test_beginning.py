"""`leadline train --from FOLDER`: weights of a run or of Hugging Face, where names and shapes agree."""

import json

import pytest
import torch

import leadline as ll
from leadline.cli import main
from leadline.errors import RunError, UserError
from leadline.interop import beginning, hugging_face

QUICK = ("--epochs", "1", "--threads", "1", "--no-report")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def moons(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moons") / "run"
    data = ll.data.moons(num=80)
    return ll.fit(ll.models.MLP(2, (9, 7), 1), data, folder=folder, epochs=2, progress=False, with_report=False)


def shell(capsys, *words):
    code = main(["train", *map(str, words), *QUICK])
    told = capsys.readouterr()
    return code, " ".join((told.out + told.err).split())  # lines are wrapped


def first(run):
    """The weights that a run began with."""
    from leadline.engine import checkpoint

    tensors, _ = checkpoint.load(run / "checkpoints" / "step-0000000000")
    return checkpoint.of("model", tensors["weights"])


def test_the_trunk_of_a_run_begins_another(moons, capsys, tmp_path):
    code, told = shell(capsys, "blobs", "--num", 60, "--from", moons.folder, "--folder", tmp_path / "next")
    assert code == 0
    assert f"MLP starts from {moons.folder}: 4 tensors loaded; new: head.weight" in told
    began, ended = first(tmp_path / "next"), moons.model.state_dict()
    assert all(torch.equal(began[name], ended[name]) for name in began if not name.startswith("head"))
    config = json.loads((tmp_path / "next" / "run.json").read_text())
    assert config["model"]["config"]["hidden"] == [9, 7]
    assert config["settings"]["lr"] == 1e-4


def test_on_the_same_task_the_head_comes_too(moons):
    model, filled = beginning(moons.folder).build(ll.data.moons(num=40), 1)
    assert not filled.new
    assert all(torch.equal(value, moons.model.state_dict()[name]) for name, value in model.state_dict().items())


def test_what_is_new_follows_the_seed(moons):
    data = ll.data.blobs(num=40)
    heads = [beginning(moons.folder).build(data, 3, seed)[0].head.weight for seed in (1, 1, 2)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


@pytest.mark.parametrize(
    ("words", "must"),
    [
        (("--model", "Linear"), "--model must be the model in the folder of --from"),
        (("--init", "he"), "--init is for random first weights"),
        (("--folds", "3"), "folds train from random first weights"),
        (("--hidden", "5", "4"), "must hold weights that fit"),
    ],
)
def test_what_does_not_go_with_it_is_refused(moons, capsys, words, must):
    code, told = shell(capsys, "blobs", "--from", moons.folder, *words)
    assert code == 2
    assert must in told


def test_weights_of_which_most_do_not_fit_are_refused(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("a good film, again. a bad film, never again. " * 60)
    words = (tmp_path / "text.txt", "--kind", "bytes", "--length", 32, "--num-layers", 1, "--num-heads", 2)
    code, told = shell(capsys, *words, "--model", "GPT", "--dim", 16, "--folder", "taught")
    assert code == 0, told
    again = (tmp_path / "text.txt", "--length", 32, "--from", "taught")
    code, told = shell(capsys, *again, "--dim", 32, "--folder", "wide")
    assert code == 2 and "must hold weights that fit a GPT for these data, but for its head" in told
    assert "loaded; new: " in told and "Leave out what it has otherwise: dim 16." in told
    code, told = shell(capsys, *again, "--num-layers", 2, "--folder", "deep")  # what is there fits
    assert code == 0 and "new: " in told, told


def test_a_folder_with_nothing_to_begin_from_is_refused(tmp_path):
    with pytest.raises(RunError, match="holds neither"):
        beginning(tmp_path)
    with pytest.raises(RunError, match="no folder"):
        beginning(tmp_path / "gone")


def reviews(path):
    lines = ["review,stars"]
    for k in range(60):
        lines.append(f"{'a good film again' if k % 2 else 'a bad film never again'} {k},{'up' if k % 2 else 'down'}")
    path.write_text("\n".join(lines))


def test_a_folder_of_hugging_face_begins_a_classifier_of_text(capsys, tmp_path):
    words = ll.text.Tokenizer.train(["a good film", "a bad film, never again"] * 9, kind="bytes")
    torch.manual_seed(0)
    bert = ll.models.BERT(words.num_tokens, 64, words.num_tokens, dim=16, num_layers=1, num_heads=2)
    hugging_face.save(bert, tmp_path / "bert", tokenizer=words)
    reviews(tmp_path / "reviews.csv")
    flags = ("--text", "review", "--target", "stars", "--length", 40, "--from", tmp_path / "bert")
    code, told = shell(capsys, tmp_path / "reviews.csv", *flags, "--folder", "run")
    assert code == 0, told
    assert "BERT starts from" in told and "new: pooler.weight" in told and "answer.weight" in told
    began, ended = first(tmp_path / "run"), bert.state_dict()
    shared = [name for name in began if name in ended]
    assert "tokens.weight" in shared and "positions.weight" in shared
    assert all(torch.equal(began[name], ended[name]) for name in shared)
    run = ll.load("run")
    assert run.model.config["head"] == "classes" and run.model.config["length"] == 64
    assert len(run.predict(["a good film"])) == 1


def test_rows_are_no_longer_than_the_weights_have_positions_where_nobody_says(capsys, tmp_path):
    words = ll.text.Tokenizer.train([], kind="bytes")
    gpt = ll.models.GPT(words.num_tokens, 32, dim=16, num_layers=1, num_heads=2)
    hugging_face.save(gpt, tmp_path / "gpt", tokenizer=words)
    (tmp_path / "story.txt").write_text("a good film, again and again. " * 40)
    code, told = shell(capsys, tmp_path / "story.txt", "--from", tmp_path / "gpt", "--folder", "run")
    assert code == 0, told
    assert "new:" not in told and ll.load("run").model.config["length"] == 32


def test_a_run_on_hidden_words_begins_one_on_classes(capsys, tmp_path):
    (tmp_path / "texts").mkdir()
    for k in range(12):
        (tmp_path / "texts" / f"{k}.txt").write_text(f"a good film, again {k}. a bad film, never again. " * 8)
    sizes = ("--dim", 16, "--num-layers", 1, "--num-heads", 2)
    words = ("--task", "masked", "--model", "BERT", "--kind", "bytes", "--length", 48, *sizes)
    code, told = shell(capsys, tmp_path / "texts", *words, "--folder", "taught")
    assert code == 0, told
    reviews(tmp_path / "reviews.csv")
    flags = ("--text", "review", "--target", "stars", "--length", 40, "--from", "taught")
    code, told = shell(capsys, tmp_path / "reviews.csv", *flags, "--folder", "tuned")
    assert code == 0, told
    taught, began = ll.load("taught").model.state_dict(), first(tmp_path / "tuned")
    shared = [name for name in began if name in taught]
    assert "tokens.weight" in shared
    assert all(torch.equal(began[name], taught[name]) for name in shared)


def test_the_trunk_that_is_carried_over_still_knows_hidden_words(tmp_path):
    texts = "\n\n".join(f"a good film, again {k}. a bad film, never again. " * 8 for k in range(12))
    (tmp_path / "texts.txt").write_text(texts)
    options = {"kind": "bytes", "length": 48, "separator": "\\n\\n", "cache": False}
    data = ll.data.text("texts.txt", task="masked", **options)
    model = ll.models.build("BERT", data, data.target.dim, dim=16, num_layers=1, num_heads=2)
    run = ll.fit(model, data, folder="taught", epochs=2, progress=False, with_report=False, threads=1)
    reviews(tmp_path / "reviews.csv")
    words = tmp_path / "taught" / "tokenizer.json"
    told = ll.data.text("reviews.csv", text="review", target="stars", tokenizer=words, length=40, cache=False)
    tuned, filled = beginning("taught").build(told, 2, seed=5)
    assert all(name.startswith(("pooler.", "answer.")) for name in filled.new)
    assert all(name.startswith(("transform", "bias")) for name in filled.left)
    again = ll.load("taught", data=data)
    nll = run.evaluate("val")["nll"]
    with torch.no_grad():
        for name, value in again.model.state_dict().items():
            value.copy_(tuned.state_dict()[name] if name in filled.loaded else value)
    assert again.evaluate("val")["nll"] == nll
    with torch.no_grad():  # and would not, were words exchanged
        again.model.tokens.weight.copy_(again.model.tokens.weight.flip(0))
    assert again.evaluate("val")["nll"] != nll


def test_a_model_of_ones_own_cannot_be_built_by_name(tmp_path):
    data = ll.data.moons(num=40)
    folder = tmp_path / "own"
    ll.fit(torch.nn.Linear(2, 1), data, folder=folder, epochs=1, progress=False, with_report=False)
    with pytest.raises(UserError, match="built by name"):
        beginning(folder)
