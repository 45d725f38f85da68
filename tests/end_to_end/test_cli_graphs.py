"""Graphs from the shell: two files in, a trained network out, and an answer for every node."""

from __future__ import annotations

import csv
import json

import pytest

import leadline as ll
from leadline.cli import main


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Communities of papers in two files; a fifth of them without a field."""
    folder = tmp_path_factory.mktemp("graph")
    data = ll.data.communities(num=200, num_classes=2, dim_input=3, signal=0.8, seed=1)
    graph = data.inputs.graph
    field = {int(row): "ab"[y] for _, split in data.splits() for row, y in zip(split.x[:, 0], split.y)}
    with (folder / "nodes.csv").open("w") as file:
        file.write("paper,words,year,venue,field\n")
        for node in range(200):
            x = ",".join(f"{value:.4f}" for value in graph.x[node].tolist())
            file.write(f"p{node},{x},{field[node] if node % 5 else ''}\n")
    with (folder / "edges.csv").open("w") as file:
        file.write("citing,cited\n")
        file.writelines(f"p{a},p{b}\n" for a, b in graph.edges.pairs.T.tolist() if a < b)
    return folder, field


@pytest.fixture(scope="module")
def trained(tables):
    folder, _ = tables
    nodes, edges = str(folder / "nodes.csv"), str(folder / "edges.csv")
    run = folder / "run"
    assert main(["train", nodes, "--edges", edges, "--target", "field", "--epochs", "60", "--folder", str(run)]) == 0
    return run


def rows_of(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_a_run_on_two_files_has_its_report_and_its_figures(trained):
    assert (trained / "report.html").stat().st_size > 10_000
    config = json.loads((trained / "run.json").read_text())
    assert config["model"]["name"] == "GCN" and config["data"]["recipe"]["source"] == "graph"
    assert config["settings"]["batch"] == len(ll.load(trained).data.train) and config["settings"]["lr"] == 0.01


def test_predicting_writes_a_probability_for_every_node(trained, tables, tmp_path, capsys):
    folder, field = tables
    out = tmp_path / "out.csv"
    nodes, edges = str(folder / "nodes.csv"), str(folder / "edges.csv")
    assert main(["predict", str(trained), nodes, "--edges", edges, "--output", str(out)]) == 0
    rows = rows_of(out)
    assert len(rows) == 200 and [row["paper"] for row in rows[:3]] == ["p0", "p1", "p2"]
    assert all(abs(float(row["p(a)"]) + float(row["p(b)"]) - 1) < 1e-5 for row in rows)
    lost = [row for row in rows if not row["field"]]
    right = sum(row["predicted"] == field[int(row["paper"][1:])] for row in lost)
    assert len(lost) == 40 and right >= 34
    capsys.readouterr()
    assert main(["predict", str(trained)]) == 0  # the nodes of its own graph that had no value
    own = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {(row["paper"], row["predicted"]) for row in own} == {(row["paper"], row["predicted"]) for row in lost}
    (tmp_path / "ask.csv").write_text("paper\np7\np3\n")
    assert main(["predict", str(trained), str(tmp_path / "ask.csv")]) == 0
    asked = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["paper"] for row in asked] == ["p7", "p3"]
    assert float(asked[0]["p(a)"]) == pytest.approx(float(rows[7]["p(a)"]), abs=1e-4)


def test_evaluating_on_its_own_split_and_on_another_graph(trained, tables, capsys):
    folder, _ = tables
    assert main(["evaluate", str(trained), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["accuracy"] > 0.8
    nodes, edges = str(folder / "nodes.csv"), str(folder / "edges.csv")
    assert main(["evaluate", str(trained), "--data", nodes, "--edges", edges, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"] == 160 and answer["metrics"]["accuracy"] > 0.8


def test_a_killed_run_goes_on_bit_for_bit(tables, tmp_path):
    folder, _ = tables
    options = {"target": "field", "edges": folder / "edges.csv"}
    data = ll.data.load(folder / "nodes.csv", **options)
    whole = ll.fit(ll.models.build("GCN", data, 1, p_drop=0.3), data, epochs=6, batch=40, progress=False)

    def stop(event):
        if type(event).__name__ == "EpochEnded" and event.epoch == 3:
            raise KeyboardInterrupt

    ll.fit(
        ll.models.build("GCN", data, 1, p_drop=0.3), data, epochs=6, batch=40, progress=False, listeners=[stop],
        folder=tmp_path / "run", with_report=False,
    )  # fmt: skip
    again = ll.resume(tmp_path / "run", progress=False)
    assert [line["train"] for line in again.history] == [line["train"] for line in whole.history]
    one, two = whole.outputs("test"), again.outputs("test")
    assert bool((one == two).all())


def test_a_folder_and_known_graphs(tables, tmp_path, capsys, monkeypatch):
    folder, _ = tables
    monkeypatch.chdir(tmp_path)
    assert main(["show", "data", str(folder), "--target", "field"]) == 0
    assert "40 nodes without a value of field: neighbours of others, not asked about" in capsys.readouterr().out
    assert main(["train", str(folder), "--target", "field", "--epochs", "2", "--no-report", "--folder", "r1"]) == 0
    assert main(["train", "karate", "--folder", "r2", "--json"]) == 0
    out = capsys.readouterr().out
    answer = json.loads(out[out.index("{") :])
    assert round(answer["metrics"]["test"]["accuracy"] * 32) + 2 >= 32
    assert main(["train", "molecules", "--num", "40", "--epochs", "2", "--no-report", "--folder", "r3"]) == 0
    assert main(["doctor", "communities", "--num", "100"]) == 0
    assert main(["train", "communities", "--num", "100", "--folds", "3", "--epochs", "2", "--folder", "r4"]) == 0


def test_links_from_the_shell(tables, tmp_path, capsys, monkeypatch):
    folder, _ = tables
    monkeypatch.chdir(tmp_path)
    line = ["train", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv"), "--level", "links"]
    assert main([*line, "--drop", "field", "--epochs", "3", "--folder", "run"]) == 0
    (tmp_path / "pairs.csv").write_text("citing,cited\np1,p2\np3,p4\n")
    capsys.readouterr()
    assert main(["predict", "run", "pairs.csv"]) == 0
    assert list(csv.DictReader(capsys.readouterr().out.splitlines()))[1].keys() >= {"citing", "cited", "p(yes)"}
    assert main(["predict", "run"]) == 2


MISTAKES = [
    ("train {nodes} --edges {edges}", "a graph needs a target"),
    ("train {nodes} --edges gone.csv --target field", "a table's file must exist"),
    ("train {nodes} --edges {edges} --target feild", "Did you mean field?"),
    ("train {nodes} --edges {edges} --target field --model MLP", "MLP must be given rows of numbers"),
    ("train {nodes} --target field --model GCN", "GCN must be given a graph"),
    ("train {nodes} --target field --inductive", "--inductive without --edges"),
    ("train {nodes} --edges {edges} --target field --key year --folder x", "edges to unknown nodes such as p"),
    ("train {nodes} --edges {nodes} --target field", "must have two columns where edges begin and end"),
    ("train {nodes} --edges {edges} --target field --ends citing to", "to must be a column of edges.csv"),
    (
        "train {nodes} --edges {edges} --level links --folds 3 --drop field",
        "folds need a graph of which training",
    ),
    ("train moons --model GCN", "GCN must be given a graph"),
    ("predict {run} {nodes} --edges gone.csv", "a table's file must exist"),
    ("predict {run} {edges}", "edges.csv must have paper, which name what to predict"),
    ("predict {run} {bad}", "rows must name nodes of the graph that the run was trained on: p0, p1"),
    ("predict {run} {thin} --edges {edges}", "rows must have the columns that the model was trained on"),
    ("evaluate {run} --data {thin}", "a graph must have edges"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line[:50] for line, _ in MISTAKES])
def test_mistakes_get_one_message_and_exit_code_2(line, message, tables, trained, tmp_path, capsys, monkeypatch):
    folder, _ = tables
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("paper\nzz\n")
    (tmp_path / "thin.csv").write_text("paper\n" + "".join(f"p{k}\n" for k in range(200)))
    places = {"nodes": folder / "nodes.csv", "edges": folder / "edges.csv", "run": trained}
    words = line.format(**places, bad="bad.csv", thin="thin.csv").split()
    assert main(words) == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said and said.count("error:") == 1


def test_the_model_follows_from_the_edges(tables, tmp_path, capsys, monkeypatch):
    folder, _ = tables
    monkeypatch.chdir(tmp_path)
    nodes, edges = (folder / "nodes.csv").read_text(), (folder / "edges.csv").read_text().splitlines()
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(
        "\n".join([edges[0] + ",how", *(f"{e},{'pq'[k % 2]}" for k, e in enumerate(edges[1:]))])
    )
    quick = ["--target", "field", "--epochs", "2", "--no-report"]
    line = ["train", "nodes.csv", "--edges", "edges.csv", *quick]
    for flags, model in (
        (["--directed", "--drop", "how"], "GraphSAGE"),
        (["--relation", "how"], "RelationalGCN"),
    ):
        assert main([*line, *flags, "--folder", model]) == 0
        assert json.loads((tmp_path / model / "run.json").read_text())["model"]["name"] == model
    assert main([*line, "--directed", "--model", "GCN"]) == 2
    assert "direction" in capsys.readouterr().err


def test_a_run_goes_on_where_its_files_lie_now(tables, tmp_path, monkeypatch):
    folder, _ = tables
    (tmp_path / "old").mkdir()
    for name in ("nodes.csv", "edges.csv"):
        (tmp_path / "old" / name).write_text((folder / name).read_text())
    data = ll.data.graph(tmp_path / "old" / "nodes.csv", tmp_path / "old" / "edges.csv", target="field")

    def stop(event):
        if type(event).__name__ == "EpochEnded" and event.epoch == 1:
            raise KeyboardInterrupt

    options = {"progress": False, "with_report": False, "folder": tmp_path / "run", "listeners": [stop]}
    ll.fit(ll.models.build("GCN", data, 1), data, epochs=3, **options)
    (tmp_path / "old").rename(tmp_path / "new")
    assert main(["resume", str(tmp_path / "run"), "--data", str(tmp_path / "new" / "nodes.csv")]) == 0


def test_the_python_of_a_report_repeats_a_run_on_many_graphs(tmp_path, monkeypatch):
    nodes = {"mol": [m for m in range(12) for _ in "abc"], "id": [*"abc"] * 12, "x": [k % 7 / 7 for k in range(36)]}
    edges = {"mol": [m for m in range(12) for _ in "ab"], "from": [*"ab"] * 12, "to": [*"bc"] * 12}
    graphs = {"mol": [*range(12)], "toxic": ["no", "yes"] * 6}
    for name, table in {"nodes": nodes, "edges": {**edges, "length": [0.5 * (k % 3) for k in range(24)]}}.items():
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([list(table), *zip(*table.values())])
    (tmp_path / "graphs.csv").write_text("mol,toxic\n" + "".join(f"{m},{y}\n" for m, y in zip(*graphs.values())))
    monkeypatch.chdir(tmp_path)
    line = "train nodes.csv --edges edges.csv --graph mol --graphs graphs.csv --target toxic --model GAT --epochs 3"
    assert main([*line.split(), "--no-report", "--folder", "run"]) == 0
    said = {}
    code = ll.repeat.python(json.loads((tmp_path / "run" / "run.json").read_text()))
    exec(code.replace("ll.fit(", "ll.fit(progress=False, model=").replace("model, data", "model, data=data"), said)
    assert said["run"].evaluate("test") == ll.load("run").evaluate("test")


def test_a_network_is_built_for_what_is_asked():
    many = ll.data.random_graphs(num=12, size=12)
    with pytest.raises(ll.errors.UserError, match="a network must be built for what is asked, a number of each graph"):
        ll.fit(ll.models.GCN(many.inputs.graph.x.shape[1], 1), many, epochs=1, progress=False)
