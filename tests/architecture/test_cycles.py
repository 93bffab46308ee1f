"""No module needs a module that needs it: neither at run time nor in its types."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from tests.support.syntax import nodes

# Modules that need each other, each group with its reason.
TOGETHER: dict[frozenset[str], str] = {
    frozenset({"sketch.lang.expr", "sketch.lang.rewrite", "sketch.lang.tensor"}): (
        "an expression reads tensors, which are computed by expressions"
    ),
    frozenset({"sketch.dag.dag", "sketch.dag.printer"}): "a program prints itself",
    frozenset({"sketch.schedule.labels", "sketch.schedule.program"}): (
        "errors of a program have the names of its loops"
    ),
    frozenset({"sketch.population.plan", "sketch.population.tape"}): (
        "a tape is replayed by its plan"
    ),
    frozenset({"autosched.records.corpus", "autosched.records.corpus_file"}): (
        "a corpus saves and loads itself"
    ),
    frozenset(
        {
            "autosched.graph.evaluate",
            "autosched.graph.extract",
            "autosched.graph.loop_call",
            "autosched.graph.optimize",
            "autosched.graph.passes.byte_products",
            "autosched.graph.passes.constant_folding",
            "autosched.graph.passes.even_phases",
            "autosched.graph.passes.integer_layers",
            "autosched.graph.passes.integer_pairs",
            "autosched.graph.passes.integer_products",
            "autosched.graph.passes.narrow_weights",
            "autosched.graph.passes.scaled_integers",
        }
    ): "the body of a loop is a graph, which is optimised as the graph around it",
}


def wanted(tree: ast.AST, modules: Set[str]) -> Iterator[str]:
    """Those of ``modules`` that a module imports, at its top, in functions, for types."""
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inner]
        yield from (name for name in names if name in modules)


def groups(edges: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Sets of modules each of which reaches all others of its set (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        open_.append(name)
        for other in sorted(edges[name]):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in open_:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            place = open_.index(name)
            members = frozenset(open_[place:])
            del open_[place:]
            found.extend([members] if len(members) > 1 else [])

    for name in sorted(edges):
        if name not in number:
            visit(name)
    return found


def test_no_modules_need_each_other(package_sources):
    modules = {source.module for source in package_sources}
    edges = {
        source.module: set(wanted(source.tree, modules)) - {source.module}
        for source in package_sources
    }
    assert len(modules) > 500
    found = set(groups(edges))
    assert {group for group in found if group not in TOGETHER} == set()
    assert set(TOGETHER) <= found, "listed, but they no longer need each other"


def test_cycles_are_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d"}}
    assert groups(edges) == [frozenset("abc")]
