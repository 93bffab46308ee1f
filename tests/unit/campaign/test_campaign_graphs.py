"""Random ONNX graphs: many operators, valid models, and a wrong result is found and made small."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("onnxruntime", reason="the rival of the graphs")

from campaign.graphs import judge
from campaign.graphs.draw import ADDERS, draw_graph
from campaign.graphs.graph import Graph, Rejected, values_of
from campaign.graphs.part import PART
from campaign.graphs.quantised import QUANTISED
from campaign.minimise import minimise


def ignore(phase: str) -> None:
    pass


def test_every_operator_can_be_drawn():
    kinds = set()
    for name, add in ADDERS.items():
        for seed in range(40):
            graph = Graph(Random(seed))
            try:
                add(graph)
            except Rejected:
                continue
            kinds |= {node[0] for node in graph.nodes}
            break
        else:
            raise AssertionError(f"no node of {name}")
    assert len(kinds) >= 140


def test_equal_seeds_draw_equal_graphs():
    assert draw_graph(Random(5)) == draw_graph(Random(5)) != draw_graph(Random(6))


def test_bytes_are_drawn_often_and_over_their_whole_range():
    graphs = [draw_graph(Random(seed)) for seed in range(60)]
    assert sum(any(node[0] in QUANTISED for node in graph["nodes"]) for graph in graphs) >= 12
    graph = {"inputs": [["q0", "int8", [90, 90]], ["x1", "uint8", [90]]], "values": 0}
    values = values_of(graph)
    assert (values["q0"].min(), values["q0"].max(), values["x1"].max()) == (-128, 127, 7)


def test_what_onnxruntime_cannot_run_is_confirmed_by_onnx_or_counted_as_unjudged(monkeypatch):
    case = {
        "inputs": [["x", "float32", [3, 5]]],
        "constants": [],
        "nodes": [["Neg", ["x"], ["y"], {}]],
        "outputs": ["y"],
        "values": 3,
        "threads": 1,
    }
    monkeypatch.setattr(judge, "_rival", lambda *_: None)
    counts = PART.judge(case, ignore).counts
    assert counts["judged_by_onnx"] == 1 and not counts.get("unjudged")
    monkeypatch.setattr(judge, "_ours", lambda model, inputs, *_: {"y": inputs["x"]})
    counts = PART.judge(case, ignore).counts
    assert counts["unjudged"] == 1 and not counts.get("judged_by_onnx")


def test_nodes_are_judged_one_by_one_where_onnx_fails_on_the_whole(monkeypatch):
    case = {
        "inputs": [["x", "float32", [3, 5]]],
        "constants": [],
        "nodes": [["Neg", ["x"], ["n"], {}], ["Exp", ["n"], ["y"], {}]],
        "outputs": ["y"],
        "values": 3,
        "threads": 1,
    }
    evaluate, run = judge._reference, judge._rival

    def wrong(model, feeds, names):
        whole = len(model.graph.node) > 1
        return [a + 1 for a in run(model, feeds, names)] if whole else run(model, feeds, names)

    monkeypatch.setattr(judge, "_rival", wrong)
    monkeypatch.setattr(
        judge, "_reference", lambda m, feeds: None if len(m.graph.node) > 1 else evaluate(m, feeds)
    )
    verdict = PART.judge(case, ignore)
    assert verdict.outcome == "right" and verdict.counts["judged_by_onnx"] == 1


def test_a_wrong_result_is_found_and_the_graph_made_small(monkeypatch):
    ours = judge._ours

    def wrong(model, inputs, threads, counts):
        found = ours(model, inputs, threads, counts)
        negates = any(node.op_type == "Neg" for node in model.graph.node)
        return {n: -a if negates and a.dtype != bool else a for n, a in found.items()}

    case = {
        "inputs": [["x", "float32", [3, 5]], ["z", "float32", [5]]],
        "constants": [["c", "float32", [5], [1.0, 2.0, 3.0, 4.0, 5.0]]],
        "nodes": [
            ["Exp", ["x"], ["a"], {}],
            ["Neg", ["a"], ["b"], {}],
            ["Add", ["b", "c"], ["y"], {}],
            ["Abs", ["z"], ["w"], {}],
        ],
        "outputs": ["y", "w"],
        "values": 3,
        "threads": 1,
    }
    assert PART.judge(case, ignore).outcome == "right"
    monkeypatch.setattr(judge, "_ours", wrong)
    assert PART.judge(case, ignore).outcome == "wrong"

    def fails(smaller):
        return PART.judge(smaller, ignore).outcome == "wrong"

    smallest = minimise(case, PART.smaller, fails, lambda: True)
    assert [node[0] for node in smallest["nodes"]] == ["Neg"]
    assert smallest["outputs"] == ["b"]
