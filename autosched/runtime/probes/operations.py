"""What vector functions and parallel regions cost, measured on kernels of the code generator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Final

import numpy as np

from codegen.build import build
from codegen.llvm.jit import Library, aligned_workspace, call, load
from codegen.team import Team
from sketch.analysis.function_calls import TWO_OPERANDS
from sketch.lang.expr import Expr, binary, unary
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Scope,
    Store,
)
from sketch.target.target import Target

_ELEMENTS: Final = 2048  # of float32, two arrays: they fit every L1
_WALKS: Final = 64  # over them in a call, so that calling does not show
_REGIONS: Final = 32  # of a call, for the same reason
_CALLS: Final = 400  # milliseconds; the fastest is one that nothing interrupted


def vector_seconds(target: Target, function: Callable[[Expr], Expr]) -> float:
    """Seconds of a SIMD register of float32 in a function of one argument, one thread.

    Registers are loaded from L1 and stored there, beside the arithmetic.
    """
    nest = _nest(_ELEMENTS, target.lanes(4), LoopKind.SERIAL, function)
    again = Loop(LoopVar("again"), _WALKS, 1, LoopKind.SERIAL, "spatial", nest.roots)
    run = _Runnable(replace(nest, roots=(again,)), target.with_threads(1))
    return _best_seconds(lambda: run(0)) / (_WALKS * _ELEMENTS / target.lanes(4))


@cache
def measured_calls(target: Target, name: str) -> float:
    """Evaluations a second of a function of float32, all threads of ``target`` together.

    Args:
        target: this machine.
        name: of the function, as expressions have it; or "div", "pow".
    """
    function: Callable[[Expr], Expr] = partial(unary, name)
    if name in TWO_OPERANDS:
        function = _of_two(name)
    return target.threads * target.lanes(4) / vector_seconds(target, function)


def _of_two(name: str) -> Callable[[Expr], Expr]:
    return lambda x: binary(name, 1.5 if name == "div" else x, x)


def region_seconds(target: Target) -> tuple[float, float]:
    """Seconds of a parallel region on all threads of this machine, and of its work on one thread.

    One after another in a call, as those of a network; the work, a register for each thread, takes
    next to nothing.  What is in between is the time to start a region and to join it.
    """
    run = _Runnable(_regions(target.threads, target.lanes(4)), target)
    team = Team(target.threads)
    together = _best_seconds(lambda: run(team.address))
    return together / _REGIONS, _best_seconds(lambda: run(0)) / _REGIONS


class _Runnable:
    """A kernel of one input and one output, with arrays."""

    def __init__(self, nest: LoopNest, target: Target) -> None:
        kernel = build(nest, target)
        self._library: Library = load([kernel])
        self._address = self._library.address(kernel.symbol)
        count = int(nest.arguments[0].size)
        self._arrays = [aligned_workspace(4 * count).view(np.float32) for _ in nest.arguments]
        self._arrays[0][:] = np.linspace(0.5, 2.0, count, dtype=np.float32)
        self._workspace = aligned_workspace(kernel.workspace_bytes)

    def __call__(self, team: int) -> None:
        call(self._address, self._arrays, self._workspace, team)


def _nest(count: int, lanes: int, kind: LoopKind, function: Callable[[Expr], Expr]) -> LoopNest:
    """``y[i] = function(x[i])``, a register at a time."""
    x, y = _buffer("x", count, Scope.INPUT), _buffer("y", count, Scope.OUTPUT)
    outer, lane = LoopVar("i"), LoopVar("lane")
    index = Affine(((outer, 1), (lane, 1)))
    store = Store((y,), (index,), (function(BufferLoad(x, (index,))),))
    return LoopNest(
        "function", (x, y), (), (_walk(outer, lane, count // lanes, lanes, kind, store),)
    )


def _regions(threads: int, lanes: int) -> LoopNest:
    """Parallel loops that each read the registers of the one before in the opposite order."""
    count = threads * lanes
    values = [
        _buffer(f"v{n}", count, Scope.OUTPUT if n else Scope.INPUT) for n in range(_REGIONS + 1)
    ]
    roots = []
    for source, result in pairwise(values):
        outer, lane = LoopVar("i"), LoopVar("lane")
        there = Affine(((outer, -1), (lane, 1)), count - lanes)
        store = Store(
            (result,),
            (Affine(((outer, 1), (lane, 1))),),
            (BufferLoad(source, (there,)),),
        )
        roots.append(_walk(outer, lane, threads, lanes, LoopKind.PARALLEL, store))
    return LoopNest("regions", tuple(values), (), tuple(roots))


def _buffer(name: str, count: int, scope: Scope) -> Buffer:
    return Buffer(name, "float32", (count,), (1,), (1,), scope, count)


def _walk(
    outer: LoopVar, lane: LoopVar, trips: int, lanes: int, kind: LoopKind, store: Store
) -> Loop:
    """A store for every register of an array."""
    vector = Loop(lane, lanes, 1, LoopKind.VECTORIZED, "spatial", (store,))
    return Loop(outer, trips, lanes, kind, "spatial", (vector,))


def _best_seconds(run: Callable[[], None]) -> float:
    """Least seconds of a call."""
    best = float("inf")
    for _ in range(_CALLS):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best
