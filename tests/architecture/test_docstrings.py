"""What others call says what it takes and what it raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.syntax import nodes

MANY = 4

Function = ast.FunctionDef | ast.AsyncFunctionDef


def documented_elsewhere(node: Function, derived: bool) -> bool:
    """Whether a base class explains a method, or a protocol: "see ``Device``"."""
    text = ast.get_docstring(node)
    return derived if text is None else re.search(r"[Ss]ee ``[A-Z]\w*``", text) is not None


def public_functions(tree: ast.AST, derived: bool = False) -> Iterator[Function]:
    """Public functions and methods, but for overloads and what is documented elsewhere."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            if node.name[0] != "_":
                yield from public_functions(node, derived=bool(node.bases))
        elif isinstance(node, Function):
            overloads = any(ast.unparse(item) == "overload" for item in node.decorator_list)
            if node.name[0] != "_" and not overloads and not documented_elsewhere(node, derived):
                yield node
        elif isinstance(node, ast.If | ast.Try):
            yield from public_functions(node, derived)


def parameters(node: Function) -> list[str]:
    names = [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def raised(node: ast.AST) -> Iterator[str]:
    """Names of the classes that a function raises itself, not in functions inside it."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Raise) and isinstance(inner.exc, ast.Call):
            yield ast.unparse(inner.exc.func).split(".")[-1]
        if not isinstance(inner, Function | ast.Lambda | ast.ClassDef):
            yield from raised(inner)


def unexplained(node: Function) -> list[str]:
    """Parameters of a function of many that its docstring does not list."""
    names, text = parameters(node), ast.get_docstring(node) or ""
    if len(names) < MANY:
        return []
    return [name for name in names if "Args:" not in text or f"    {name}: " not in text]


def unsaid(node: Function, ours: set[str]) -> set[str]:
    """Errors of ours that a function raises and its docstring does not name."""
    text = ast.get_docstring(node) or ""
    says = "raise" in text.lower()
    return {name for name in raised(node) if name in ours and not (says and name in text)}


@pytest.fixture(scope="module")
def our_errors(package_sources) -> set[str]:
    """Classes of the modules ``errors.py``."""
    modules = [source for source in package_sources if source.module.endswith(".errors")]
    return {
        node.name
        for source in modules
        for node in nodes(source.tree)
        if isinstance(node, ast.ClassDef)
    }


def test_functions_of_many_parameters_explain_each(package_sources):
    found = [
        f"{source.at(node)} {node.name}: {', '.join(missing)}"
        for source in package_sources
        for node in public_functions(source.tree)
        if (missing := unexplained(node))
    ]
    assert found == []


def test_functions_that_raise_errors_of_ours_name_them(package_sources, our_errors):
    assert len(our_errors) > 10
    found = [
        f"{source.at(node)} {node.name}: {', '.join(sorted(missing))}"
        for source in package_sources
        for node in public_functions(source.tree)
        if (missing := unsaid(node, our_errors))
    ]
    assert found == []


def test_what_is_missing_is_found():
    (node,) = public_functions(
        ast.parse("def f(a, b, c, d):\n '''F.\n\n Args:\n     a: x\n '''\n raise TaskError('no')")
    )
    assert unexplained(node) == ["b", "c", "d"]
    assert unsaid(node, {"TaskError"}) == {"TaskError"}
