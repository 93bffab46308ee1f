"""A back end is chosen once from the target: nothing else asks what kind of machine it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import get_args

from codegen.backend import BACKENDS, backend_of
from sketch.target.target import Target, TargetKind

KINDS = get_args(TargetKind)
# Where a kind is a value to choose by, or a name to make one from.
CHOOSES = ("sketch/population/feasible.py",)


def kind_tests(tree: ast.AST) -> Iterator[ast.Compare | ast.Match]:
    """Comparisons and matches of ``<target>.kind``, and of any ``.kind`` with a kind's name."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                kinds = [isinstance(s, ast.Attribute) and s.attr == "kind" for s in sides]
                named = any(isinstance(s, ast.Constant) and s.value in KINDS for s in sides)
                of_target = any(is_kind_of_target(side) for side in sides)
                if (named and any(kinds)) or (of_target and not all(kinds)):
                    yield node
            case ast.Match(subject=subject) if is_kind_of_target(subject):
                yield node


def is_kind_of_target(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "kind"
        and "target" in ast.unparse(node.value)
    )


def test_the_kind_of_a_target_is_looked_at_in_one_place(package_sources):
    found = [
        f"{source.at(node)} {ast.unparse(node)}"
        for source in package_sources
        if source.path not in CHOOSES
        for node in kind_tests(source.tree)
    ]
    assert found == []


def test_the_check_finds_tests_of_kinds_and_nothing_else():
    for line in ('t.kind == "cpu"', '"cuda" != x.kind', "self.target.kind in KINDS"):
        assert list(kind_tests(ast.parse(line))), line
    for line in ("loop.kind is LoopKind.SERIAL", "a.target.kind == b.target.kind", 'x == "cpu"'):
        assert not list(kind_tests(ast.parse(line))), line


def test_every_kind_has_one_backend():
    assert len(BACKENDS) == len(KINDS)
    assert {backend_of(Target(kind, "any")).name for kind in KINDS} == set(KINDS)
