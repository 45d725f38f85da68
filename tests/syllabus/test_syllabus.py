"""Every item of the course has its row, every row leads somewhere or says why not, and people find it."""

import sys

import pytest

from leadline.claims import CLAIMS
from leadline.syllabus import FILES, Row, find, nearest, resolve, rows, sources
from leadline.syllabus.row import _read


def ids(prefix, *ranges, digits=1):
    """The ids of ranges with both ends."""
    return {f"{prefix}-{n:0{digits}}" for first, last in ranges for n in range(first, last + 1)}


BOOK = ids("UA", (1, 294), digits=3)
NOTES = ids(
    "EA", (1, 15), (41, 47), (71, 75), (84, 86), (100, 100), (102, 102), (114, 118), (123, 124), (134, 136),
    (147, 157), (170, 174), (184, 204),
)  # fmt: skip
D2L = ids("DZ", (1, 6), (15, 17), (35, 41), (48, 49), (51, 52), (57, 58), (66, 66), (70, 73))
SLIDES = ids(
    "DW", (1, 5), (7, 7), (14, 17), (23, 25), (27, 27), (29, 29), (45, 47), (49, 50), (60, 63), (69, 70), (76, 81)
)

FITTING = ids("UB", (1, 351), digits=3) | {"UC-226", "UC-249"}
FITTING_NOTES = (
    ids("EA", (81, 83), (87, 99), (101, 101), (103, 109), (111, 113), (137, 137), (142, 142),
        (145, 146), (158, 158), (167, 169), (181, 183), (205, 208), (231, 237), (244, 246))
    | ids("DZ", (42, 47), (55, 56), (60, 60), (63, 63), (67, 67), (75, 76), (84, 84), (88, 88), (91, 91))
    | ids("DW", (28, 28), (30, 44), (53, 57), (59, 59), (64, 64), (66, 68), (71, 71), (75, 75), (82, 90), (94, 95))
)  # fmt: skip
CONVOLUTION = (
    ids("UC", (1, 225), (227, 248), (250, 341), digits=3)
    | ids("EA", (16, 16), (48, 54), (110, 110), (130, 130), (209, 212), (239, 240), (243, 243))
    | ids("DZ", (7, 8), (18, 25), (50, 50), (64, 64), (74, 74))
    | ids("DW", (6, 6), (8, 8), (13, 13), (18, 21), (52, 52), (65, 65), (74, 74), (91, 92))
)
TRANSFORMERS = (
    ids("UD", (1, 41), (78, 122), (144, 152), (159, 169), (176, 187), (203, 215), (222, 244), (266, 280), (293, 310),
        (316, 347), digits=3)
    | ids("EA", (26, 30), (56, 62), (78, 80), (119, 119), (125, 125), (127, 128), (140, 141), (143, 143), (162, 162),
          (176, 176), (219, 220), (247, 247))
    | ids("DZ", (12, 13), (26, 32), (54, 54), (62, 62), (77, 82))
)  # fmt: skip
RECURRENCE = (
    ids("EA", (17, 25), (55, 55), (76, 77), (126, 126), (138, 139), (160, 161), (175, 175), (213, 217), (241, 242))
    | ids("DZ", (9, 11), (53, 53), (68, 68))
    | ids("DW", (9, 11), (22, 22), (26, 26), (51, 51), (93, 93))
)
GRAPHS = (
    ids("UD", (42, 77), (123, 143), (153, 158), (170, 175), (188, 202), (216, 221), (245, 265), (281, 292), (311, 315),
        (348, 365), digits=3)
    | ids("EA", (31, 39), (64, 70), (120, 121), (131, 133), (144, 144), (164, 166), (178, 180), (221, 229), (238, 238))
    | ids("DW", (12, 12), (48, 48))
)  # fmt: skip


# ── the rows ──


def test_every_item_has_a_row_and_there_are_no_others():
    found = [row.id for row in rows()]
    assert len(found) == len(set(found))
    book = BOOK | NOTES | D2L | SLIDES | FITTING | FITTING_NOTES | CONVOLUTION | TRANSFORMERS
    assert set(found) == book | RECURRENCE | GRAPHS


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
