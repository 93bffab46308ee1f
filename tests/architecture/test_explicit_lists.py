"""Rules and passes are values in explicit tuples: what exists is listed, what is listed runs."""

from __future__ import annotations

import ast

from tests.support.syntax import nodes


def tuple_names(sources) -> set[str]:
    """Names that stand in a tuple, called or not: ``(Inline(), Tiling("SSRSRS"), fold)``."""
    names: set[str] = set()
    for source in sources:
        for node in nodes(source.tree):
            if isinstance(node, ast.Tuple):
                for element in node.elts:
                    inner = element.func if isinstance(element, ast.Call) else element
                    if isinstance(inner, ast.Name):
                        names.add(inner.id)
                    elif isinstance(inner, ast.Attribute):
                        names |= {inner.attr, ast.unparse(inner).split(".")[0]}
    return names


def is_rule(node: ast.AST) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    if any(ast.unparse(base) == "Protocol" for base in node.bases):
        return False
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    return {"applies", "apply"} <= methods


def test_every_sketch_rule_is_listed(package_sources):
    rules = [s for s in package_sources if s.path.startswith("sketch/rules/")]
    classes = {n.name for s in rules for n in nodes(s.tree) if is_rule(n)}
    assert classes, "no sketch rule found: did the protocol of rules change?"
    assert classes - tuple_names(rules) == set()


def passes(sources, folder: str) -> set[str]:
    """Public functions of the folder that map a value to its own type."""
    return {
        node.name
        for source in sources
        if source.path.startswith(folder) and not source.path.endswith("__init__.py")
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef) and is_pass(node)
    }


def is_pass(function: ast.FunctionDef) -> bool:
    if function.name.startswith("_") or function.returns is None or not function.args.args:
        return False
    result = ast.unparse(function.returns)
    first = function.args.args[0].annotation
    return result in ("LoopNest", "Graph") and first is not None and ast.unparse(first) == result


def test_every_code_pass_is_in_the_chain(package_sources):
    """The chain is a tuple, or one function that applies pass after pass."""
    files = ("codegen/build.py", "codegen/backend.py")
    build = [source for source in package_sources if source.path in files]
    chain = {n.id for s in build for n in nodes(s.tree) if isinstance(n, ast.Name)}
    found = passes(package_sources, "codegen/passes/")
    assert found, "no pass found: did their signature change?"
    assert found - chain == set()


def test_every_graph_pass_is_listed(package_sources):
    graph = [s for s in package_sources if s.path.startswith("autosched/graph/")]
    found = passes(package_sources, "autosched/graph/passes/")
    assert found, "no pass found: did their signature change?"
    assert found - tuple_names(graph) == set()
