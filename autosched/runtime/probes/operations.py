"""What vector functions and parallel regions cost, measured on kernels of the code generator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from codegen.build import build
from codegen.llvm.jit import Library, aligned_workspace, call, load
from codegen.team import Team
from sketch.lang.expr import Expr
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
_CALLS: Final = 400  # milliseconds; the fastest is one that nothing interrupted


def vector_seconds(target: Target, function: Callable[[Expr], Expr]) -> float:
    """Seconds of a SIMD register of float32 in a function of one argument, one thread.

    Registers are loaded from L1 and stored there, beside the arithmetic.
    """
    nest = _nest(_ELEMENTS, target.lanes(4), LoopKind.SERIAL, function)
    again = Loop(LoopVar("again"), _WALKS, 1, LoopKind.SERIAL, "spatial", nest.roots)
    run = _Runnable(replace(nest, roots=(again,)), target.with_threads(1))
    return _best_seconds(lambda: run(0)) / (_WALKS * _ELEMENTS / target.lanes(4))


def region_seconds(target: Target) -> float:
    """Seconds to start a parallel region on all threads of this machine, and to join it.

    The work, a register for each thread, takes next to nothing.
    """
    lanes = target.lanes(4)
    run = _Runnable(_nest(target.threads * lanes, lanes, LoopKind.PARALLEL, lambda x: x), target)
    team = Team(target.threads)
    together = _best_seconds(lambda: run(team.address))
    return max(together - _best_seconds(lambda: run(0)), 0.0)


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
    x, y = (
        Buffer(name, "float32", (count,), (1,), (1,), scope, count)
        for name, scope in (("x", Scope.INPUT), ("y", Scope.OUTPUT))
    )
    outer, lane = LoopVar("i"), LoopVar("lane")
    index = Affine(((outer, 1), (lane, 1)))
    store = Store((y,), (index,), (function(BufferLoad(x, (index,))),), stage="y")
    vector = Loop(lane, lanes, 1, LoopKind.VECTORIZED, "spatial", (store,))
    loop = Loop(outer, count // lanes, lanes, kind, "spatial", (vector,))
    return LoopNest("probe", (x, y), (), (loop,))


def _best_seconds(run: Callable[[], None]) -> float:
    """Least seconds of a call."""
    best = float("inf")
    for _ in range(_CALLS):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best
