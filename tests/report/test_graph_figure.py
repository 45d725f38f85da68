"""The page of a run on a graph shows the graph with what was said of it."""

import numpy as np
import torch

import leadline as ll
from leadline.data.graph_source import graph
from leadline.engine.evaluation import evaluate, outputs
from leadline.likelihoods import likelihood_for
from leadline.report.facts import Facts
from leadline.report.graphs import MOST, SOME, said
from leadline.report.page import page


def told(data, name="GCN", likelihood=None):
    """Facts of a network that was not trained."""
    likelihood = likelihood or likelihood_for(data.target)
    model = ll.models.build(name, data, 1, dim=8)
    answers = {part: outputs(model, split.x) for part, split in data.splits() if len(split)}
    scores = {part: evaluate(likelihood, answers[part], data[part].y) for part in answers}
    return Facts("told", {}, [], None, scores, data, likelihood, answers)


def test_nodes_have_the_colours_of_answers_and_wrong_ones_rings():
    data = ll.data.communities(num=200)
    facts = told(data)
    drawing = said(facts, "test")
    at = data.test.x[:, 0].numpy()
    right = (facts.outputs["test"][:, 0] > 0).long()
    assert np.array_equal(drawing.values[at], right.numpy()) and drawing.classes == ("0", "1")
    assert np.array_equal(np.flatnonzero(drawing.wrong), np.sort(at[(right != data.test.y).numpy()]))
    shown = page(facts)
    assert "graph" in shown.figures and "Rings mark test rows" in shown.html


def test_nodes_that_were_not_asked_are_grey():
    data = ll.data.karate()
    facts = told(data)
    facts.outputs.pop("train")
    drawing = said(facts, "test")
    assert (drawing.values[[0, 33]] == -1).all() and "Grey nodes" in page(facts).html


def test_a_part_of_a_large_graph_and_some_of_many_are_drawn():
    large = said(told(ll.data.communities(num=1500)), "test")
    assert len(large.nodes) == MOST and large.num_nodes == 1500
    many = ll.data.molecules(num=150)
    facts = told(many, "GIN")
    drawing = said(facts, "test")
    first = many.inputs.graph.some(many.test.x[:SOME, 0])
    assert len(drawing.nodes) == len(first)
    own = (facts.outputs["test"][:SOME, 0] > 0).long()[first.of_node]
    assert np.array_equal(drawing.values, own.numpy())


def test_numbers_of_nodes_have_a_scale():
    x, pairs = torch.randn(60, 3), torch.stack([torch.arange(59), torch.arange(1, 60)])
    data = graph(x.numpy(), pairs.numpy().T, (x[:, 0] * 2).numpy())
    facts = told(data)
    drawing = said(facts, "test")
    assert drawing.classes == () and drawing.wrong is None and "graph" in page(facts).figures


def test_rows_of_tables_have_no_graph():
    data = ll.data.iris()
    likelihood = likelihood_for(data.target)
    facts = Facts("told", {}, [], None, {}, data, likelihood, {})
    assert said(facts, "test") is None
