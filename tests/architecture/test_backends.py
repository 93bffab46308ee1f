"""A back end is chosen once from the target: nothing else asks what kind of machine it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import get_args

from codegen.backend import BACKENDS, backend_of
from sketch.target.target import Target, TargetKind
from tests.support.syntax import nodes

KINDS = get_args(TargetKind)
# Where a kind is a value to choose by, or a name to make one from.
CHOOSES = ("sketch/target/of_kind.py",)
# What only GPUs have: whether it is there is a test of the kind.
GPU_NUMBERS = (
    "warp_size",
    "max_vthreads",
    "shared_memory_bytes",
    "threads_per_block",
    "registers_per_block",
)
# Values that are for one kind of machine: what is compared with them asks for the kind.
FOR_ONE_KIND = ("CPU", "CUDA", "GPU", "SIMD_CPU", "CPU_SKETCHES", "GPU_SKETCHES")


def kind_tests(tree: ast.AST) -> Iterator[ast.Compare | ast.Match]:
    """Comparisons and matches of ``<target>.kind``, and of any ``.kind`` with a kind's name."""
    for node in nodes(tree):
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


def number_tests(tree: ast.AST) -> Iterator[ast.expr]:
    """Numbers that only GPUs have, taken for true or false or compared with nought."""
    for node in nodes(tree):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                tested = [test]
            case ast.Assert(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
                tested = [test]
            case ast.BoolOp(values=tested) | ast.comprehension(ifs=tested):
                pass
            case ast.Call(func=ast.Name(id="bool"), args=tested):
                pass
            case ast.Compare(left=left, comparators=[ast.Constant(value=0)]):
                tested = [left]
            case _:
                continue
        yield from (t for t in tested if isinstance(t, ast.Attribute) and t.attr in GPU_NUMBERS)


def backend_tests(tree: ast.AST) -> Iterator[ast.Compare]:
    """Whether something is what is for one kind: ``hardware_of(target) is GPU``."""
    for node in nodes(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Name) and side.id in FOR_ONE_KIND for side in sides):
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
        for find in (kind_tests, number_tests, backend_tests)
        for node in find(source.tree)
    ]
    assert found == []


def test_the_check_finds_tests_of_kinds_and_nothing_else():
    for line in ('t.kind == "cpu"', '"cuda" != x.kind', "self.target.kind in KINDS"):
        assert list(kind_tests(ast.parse(line))), line
    for line in ("loop.kind is LoopKind.SERIAL", "a.target.kind == b.target.kind", 'x == "cpu"'):
        assert not list(kind_tests(ast.parse(line))), line


def test_the_check_finds_comparisons_with_what_is_for_one_kind():
    for line in ("hardware_of(t) is SIMD_CPU", "CUDA is not backend_of(t)"):
        assert list(backend_tests(ast.parse(line))), line
    for line in ("one.hardware is hardware", "code == CUDA"):
        assert not list(backend_tests(ast.parse(line))), line


def test_the_check_finds_numbers_that_stand_for_a_kind():
    for line in (
        "x if t.warp_size else y",
        "not target.warp_size and more",
        "a or t.max_vthreads",
        "t.threads_per_block > 0",
        "[x for x in y if x.target.warp_size]",
        "bool(t.warp_size)",
    ):
        assert list(number_tests(ast.parse(line))), line
    for line in ("x // t.warp_size if y else z", "t.threads_per_block > threads", "x or t.threads"):
        assert not list(number_tests(ast.parse(line))), line


def test_every_kind_has_one_backend():
    assert len(BACKENDS) == len(KINDS)
    assert {backend_of(Target(kind, "any")).name for kind in KINDS} == set(KINDS)
