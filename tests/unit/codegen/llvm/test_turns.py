"""Prefetches that are spread over all readings of the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from codegen.llvm.features import ProcessorFeatures, features_of
from codegen.llvm.scope import Dynamic, LoopScope
from codegen.llvm.turns import Turns, turns_of
from codegen.llvm.writer import Writer
from sketch.nest.loopnest import LoopVar
from tests.support.targets import AVX512

LINE_BYTES = AVX512.cache_line_bytes
Loops = dict[str, tuple[int, int]]  # trips and steps


def scope_of(loops: Loops, shared: str = "") -> tuple[LoopScope, list[LoopVar]]:
    """The outermost loop first."""
    scope = LoopScope(Writer())
    variables = [LoopVar(name) for name in loops]
    for level, (var, (trips, step)) in enumerate(zip(variables, loops.values(), strict=True)):
        high = (trips - 1) * step
        scope.dynamic[var] = Dynamic(f"%{var.name}", level, 0, high, step, var.name == shared)
    return scope, variables


def features(l2_bytes: int = 2**20) -> ProcessorFeatures:
    return features_of(replace(AVX512, l2_bytes=l2_bytes), flushed=False)


def fetched(turns: Turns, scope: LoopScope, consts: range, distance: int) -> list[int]:
    """Lines behind the buffer's start, in the order in which they are fetched."""
    variables = list(scope.dynamic)
    found: list[int] = []
    for values in product(*(range(0, d.high + 1, d.step) for d in scope.dynamic.values())):
        at = dict(zip(variables, values, strict=True))
        start = turns.before_const + sum(c * at[var] for var, c in turns.before)
        base = min(start, (turns.count - 1) * turns.part) + sum(c * at[v] for v, c in turns.terms)
        offsets = {turns.offset(const, distance) // LINE_BYTES: const for const in reversed(consts)}
        found += [(base + turns.offset(c, distance)) // LINE_BYTES for c in offsets.values()]
    return found


@pytest.mark.parametrize("rows", [2, 5, 10, 196])
@pytest.mark.parametrize("unroll", [2, 4])
def test_every_line_of_the_next_panel_is_fetched_about_once(rows: int, unroll: int) -> None:
    """A panel of 384 rows of 128 bytes that is read for some tiles of rows."""
    depth, row = 384, 128
    scope, (_, k) = scope_of({"m": (rows, 13), "k": (depth // unroll, unroll)})
    turns = turns_of(scope, ((k, row),), features())
    assert turns is not None
    lines = fetched(turns, scope, range(0, unroll * row, 64), depth * row)
    first = depth * row // LINE_BYTES
    assert set(range(first, 2 * first)) <= set(lines)
    assert max(lines) < 2 * first + 16
    within = lines[: len(lines) * turns.count // rows]
    assert len(within) < 2.5 * first


def test_a_run_of_several_loops_is_shared_out() -> None:
    scope, (_, tap, k) = scope_of({"m": (7, 1), "tap": (9, 1), "k": (16, 4)})
    turns = turns_of(scope, ((tap, 64 * 128), (k, 128)), features())
    assert turns is not None
    first = 9 * 64 * 128 // LINE_BYTES
    lines = fetched(turns, scope, range(0, 512, 64), 0)
    assert set(range(first, 2 * first)) <= set(lines)


def test_runs_that_are_apart_are_shared_out_each() -> None:
    """A part of the channels of every tap: the next part lies beside each."""
    scope, (_, tap, k) = scope_of({"m": (7, 1), "tap": (9, 1), "k": (16, 4)})
    turns = turns_of(scope, ((tap, 512 * 128), (k, 128)), features())
    assert turns is not None
    lines = set(fetched(turns, scope, range(0, 512, 64), 64 * 128))
    for number in range(9):
        first = (number * 512 + 64) * 128 // LINE_BYTES
        assert set(range(first, first + 64 * 128 // LINE_BYTES)) <= lines


@pytest.mark.parametrize(
    ("loops", "shared", "l2_bytes"),
    [
        ({"m": (1, 1), "k": (96, 4)}, "", 2**20),  # nothing reads it again
        ({"m": (8, 1), "k": (96, 4)}, "m", 2**20),  # another thread may
        ({"m": (8, 1), "k": (96, 4)}, "", 2**15),  # it has left the cache by then
        ({"m": (8, 1), "k": (1, 4)}, "", 2**20),  # no loop walks
    ],
)
def test_others_are_fetched_as_they_are_read(loops: Loops, shared: str, l2_bytes: int) -> None:
    scope, (_, k) = scope_of(loops, shared)
    assert turns_of(scope, ((k, 128),), features(l2_bytes)) is None
