"""Every item of the course has its row, every row leads somewhere or says why not, and people find it."""

import re
import sys

import pytest

from leadline.claims import CLAIMS
from leadline.syllabus import FILES, Row, find, nearest, resolve, rows, sources
from leadline.syllabus.row import _read


def ids(prefix, *ranges, digits=1):
    """The ids of ranges with both ends."""
    return {f"{prefix}-{n:0{digits}}" for first, last in ranges for n in range(first, last + 1)}


#: every item of the sources: nothing that a text says is left without a row
ITEMS = (
    *(ids("UA", (1, 294), digits=3), ids("UB", (1, 351), digits=3), ids("UC", (1, 341), digits=3)),
    *(ids("UD", (1, 370), digits=3), ids("EA", (1, 247)), ids("DZ", (1, 91)), ids("DW", (1, 95))),
)


# ── the rows ──


def test_every_item_has_a_row_and_there_are_no_others():
    found = [row.id for row in rows()]
    assert len(found) == len(set(found))
    assert set(found) == set().union(*ITEMS)


def test_a_row_leads_to_an_object_or_says_why_not():
    assert [row.id for row in rows() if bool(row.where) == bool(row.skipped)] == []
    assert [row.id for row in rows() if not row.title or not row.source] == []


def test_every_path_leads_to_an_object():
    lost = []
    for row in rows():
        try:
            resolve(row)
        except (AttributeError, ImportError) as error:
            lost.append(f"{row.id} {row.where}: {error}")
    assert lost == []


def test_objects_that_a_reason_names_exist():
    named = [(row.id, path) for row in rows() for path in re.findall(r"leadline(?:\.\w+)+", row.skipped)]
    assert len(named) > 20
    for id, path in named:
        assert resolve(Row(id, "", "", where=path)) is not None


def test_paths_are_of_the_library_and_public():
    for row in rows():
        if row.built:
            root, *names = row.where.split(".")
            assert root == "leadline" and names and not any(name.startswith("_") for name in names), row


def test_claims_that_rows_name_exist():
    assert {row.claim for row in rows() if row.claim} <= set(CLAIMS)


def test_a_source_is_spelt_out():
    assert {row.key for row in rows()} == set(sources())


def test_the_files_hold_nothing_else():
    for file in FILES:
        assert set(_read(file)) - {"sources"} == {"rows"}


# ── what a path leads to ──


@pytest.mark.parametrize(
    "path, name",
    [
        ("leadline.lens.regions", "regions"),  # the function, though a module has its name
        ("leadline.lens.regions.regions", "regions"),
        ("leadline.models.Shallow", "Shallow"),
        ("leadline.models.shallow.Shallow", "Shallow"),
        ("leadline.models.Shallow.set", "set"),
        ("leadline.Run.predict", "predict"),
        ("leadline.fit", "fit"),
    ],
)
def test_a_path_leads_to_what_it_names(path, name):
    found = resolve(Row("X-1", "", "", where=path))
    assert callable(found) and found.__name__ == name


def test_a_row_that_is_not_built_leads_nowhere():
    assert resolve(Row("X-1", "", "", skipped="not built")) is None


@pytest.mark.parametrize("path", ["leadline.models.Nothing", "leadline.models.Shallow.nothing", "leadline.nowhere.f"])
def test_a_path_that_leads_nowhere_is_an_error(path):
    with pytest.raises(AttributeError, match="noth|nowhere|Noth"):
        resolve(Row("X-1", "", "", where=path))


def test_a_module_that_lacks_what_it_needs_is_not_taken_for_a_path_that_leads_nowhere(tmp_path, monkeypatch):
    (tmp_path / "carriage").mkdir()
    (tmp_path / "carriage" / "__init__.py").touch()
    (tmp_path / "carriage" / "lame.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        resolve(Row("X-1", "", "", where="carriage.lame.f"))
    sys.modules.pop("carriage", None)


# ── find ──


def first(query):
    return find(query)[0].id


@pytest.mark.parametrize("query", ["UA-188", "ua-188", "UA188", "ua-0188", "  UA-188 "])
def test_an_id_finds_its_row_alone(query):
    assert [row.id for row in find(query)] == ["UA-188"]


@pytest.mark.parametrize("query", ["UA-005", "ua-5", "UA5"])
def test_zeros_before_a_number_may_be_left_out(query):
    assert [row.id for row in find(query)] == ["UA-005"]


def test_linear_regions():
    found = [row.id for row in find("linear regions")]
    assert set(found[:4]) == {"UA-188", "UA-189", "UA-190", "EA-156"}
    assert {"UA-246", "UA-264", "EA-201"} <= set(found)
    assert found == [row.id for row in find("regions linear")] == [row.id for row in find("Linear Region")]


def test_hopfield():
    found = [row.id for row in find("hopfield")]
    assert found[0] == "EA-4" and {"EA-6", "EA-124", "EA-135", "EA-152", "EA-171"} <= set(found)


@pytest.mark.parametrize(
    "query, id",
    [
        ("hopfeild", "EA-4"),
        ("Hopfeld network", "EA-4"),
        ("linaer regoins", "EA-156"),
        ("percepton", "EA-2"),
        ("kulback leibler", "UA-088"),
        ("heteroskedastic loss", "UA-080"),
        ("mixure density", "UA-040"),
    ],
)
def test_spelling_need_not_be_exact(query, id):
    assert first(query) == id


@pytest.mark.parametrize(
    "query, id",
    [
        ("DenseMemory", "EA-5"),  # by the name of the object
        ("sawtooth composed", "UA-222"),
        ("hopfield-attention", "EA-6"),  # by the claim
        ("wishart", "UA-098"),
        ("where is the hopfield network", "EA-4"),  # small words are not asked for
        ("the mode of the mixture", "UA-165"),
        ("1-3-1", "UA-014"),
        ("novikoff", "EA-186"),
    ],
)
def test_other_ways_to_a_row(query, id):
    assert first(query) == id


@pytest.mark.parametrize(
    "query, ids",
    [
        ("positional encoding", {"EA-59", "UD-096", "EA-163"}),
        ("word embedding", {"UD-093"}),
        ("multihead attention", {"UD-084"}),
        ("RNN", {"UD-019", "EA-17", "DW-9"}),
        ("seq2seq", {"UD-004", "EA-26", "EA-27"}),
        ("KV cache", {"UD-234"}),
        ("next token prediction", {"UD-144", "UD-207"}),
        ("masked language model", {"UD-206", "EA-78"}),
        ("named entity recognition", {"UD-204"}),
        ("few-shot", {"UD-208", "UD-239"}),
        ("BPTT", {"EA-138"}),
        ("forget gate", {"EA-22", "UD-020"}),
        ("top-p", {"UD-238"}),
        ("large language model", {"UD-003"}),
        ("exposure bias", {"UD-231"}),
        ("time series forecasting", {"DW-51"}),
        ("BLEU", {"UD-209", "EA-126"}),
        ("layer normalization", {"EA-108", "DZ-46"}),
        ("permutation equivariance", {"UD-316", "EA-220"}),
    ],
)
def test_the_words_of_learners_lead_to_rows(query, ids):
    assert ids <= {row.id for row in find(query)}


@pytest.mark.parametrize(
    "query, title",
    [("GPT3", "GPT-3"), ("multihead", "Multi-head"), ("tokenization", "tokenisation"), ("sinusoidal", "sinusoids")],
)
def test_a_hyphen_and_an_ending_make_no_difference(query, title):
    assert any(title in row.title for row in find(query))


def test_words_that_share_their_beginning_alone_are_not_one():
    assert "density" not in " ".join(row.title.lower() for row in find("dense")).split()
    assert find("transformer")[0].title.lower().count("transformer")  # not "transformed"


def test_words_of_a_name_are_found_one_by_one():
    assert "UA-037" in {row.id for row in find("mises von")}  # VonMises stands in its path alone


def test_a_section_holds_its_parts_and_not_its_neighbours():
    found = {row.source for row in find("UDL 3.1")}
    assert {"UDL 3.1", "UDL 3.1.1"} <= found
    assert not {"UDL figure 3.10", "UDL figure 3.11", "UDL problem 3.18"} & found
    assert {row.source for row in find("UDL 4.5.2")} == {"UDL 4.5.2"}


def test_a_word_that_is_known_is_not_guessed_at():
    assert all("linear" in " ".join(row.to_dict().values()).lower() for row in find("linear"))


@pytest.mark.parametrize("query", ["zebra", "perceptron zebra", "", "  ", "!?", "UA-999"])
def test_nothing_is_found_where_a_word_is_strange(query):
    assert find(query) == []


def test_the_nearest_is_told_where_nothing_is_found():
    assert nearest("perceptron zebra")[0].id == "EA-2"
    assert len(nearest("zebra", most=2)) == 2
    assert nearest("") == []


def test_of_the_nearest_a_rare_word_counts_more_than_a_common_one():
    assert find("network zebra hopfield") == []
    assert all("hopfield" in row.title.lower() for row in nearest("network zebra hopfield"))
