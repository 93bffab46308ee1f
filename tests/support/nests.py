"""Hand-built loop nests for tests of code generation, and running them compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.build import build
from codegen.llvm.jit import aligned_workspace, call, load
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, Expr, Reducer, binary
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
    row_major,
)
from sketch.target.target import Target
from tests.support.teams import team_address

SERIAL, PARALLEL = LoopKind.SERIAL, LoopKind.PARALLEL
UNROLLED, VECTORIZED = LoopKind.UNROLLED, LoopKind.VECTORIZED
Arrays = Mapping[str, NDArray[Any]]


def reducer(op: str = "sum", dtype: str = "float32") -> Reducer:
    """The library's own reducer."""
    value = Const(0.0 if dtype == "float32" else 0, dtype)
    return getattr(reducers, op)(value, Axis("k", 1, "reduce")).reducer


def plus(*terms: LoopVar | tuple[LoopVar, int], const: int = 0) -> Affine:
    """A sum of variables (with coefficients) and a constant."""
    pairs = tuple(term if isinstance(term, tuple) else (term, 1) for term in terms)
    return Affine(pairs, const)


def dense(name: str, shape: tuple[int, ...], scope: Scope, dtype: str = "float32") -> Buffer:
    """A dense row-major buffer."""
    size = int(np.prod(shape))
    return Buffer(name, dtype, shape, row_major(shape), (1,) * len(shape), scope, size)


def loop(
    var: LoopVar, extent: int, kind: LoopKind, *body: Node, step: int = 1, reduce: bool = False
) -> Loop:
    return Loop(var, extent, step, kind, "reduce" if reduce else "spatial", body)


def execute(nest: LoopNest, arrays: Arrays, target: Target) -> dict[str, NDArray[Any]]:
    """Compile and run; flat outputs by name, NaN (or 0) where nothing was written."""
    kernel = build(nest, target)
    outputs: dict[str, NDArray[Any]] = {}
    passed: list[NDArray[Any]] = []
    for argument in kernel.arguments:
        if argument.scope == "output":
            fill = np.nan if argument.dtype == "float32" else 0
            outputs[argument.name] = np.full(int(np.prod(argument.shape)), fill, argument.dtype)
            passed.append(outputs[argument.name])
        else:
            passed.append(np.ascontiguousarray(arrays[argument.name]))
    library = load([kernel])
    workspace = aligned_workspace(kernel.workspace_bytes)
    team = team_address(target.threads)
    call(library.address(kernel.symbol), passed, workspace, team)
    return outputs


def tile_loops(tag: str, shape: tuple[int, ...], lanes: int, make: Callable[..., Node]) -> Node:
    """Unrolled loops over a tile, the last axis in vectors: ``make(*variables, lane)``."""
    names = [LoopVar(f"{axis}.{tag}") for axis in "abcd"[: len(shape)]]
    lane = LoopVar(f"l.{tag}")
    node = loop(lane, lanes, VECTORIZED, make(*names, lane))
    for position, (var, extent) in reversed(list(enumerate(zip(names, shape, strict=True)))):
        last = position == len(shape) - 1
        trips = extent // lanes if last else extent
        node = loop(var, trips, UNROLLED, node, step=lanes if last else 1)
    return node


def matmul(m: int, n: int, k: int, rows: int, vectors: int, lanes: int = 16) -> LoopNest:
    """C = A*B with a register tile; B packed in zero-padded panels, tails in m and n."""
    width = vectors * lanes
    panels = -(-n // width)
    i, j, kk = LoopVar("i"), LoopVar("j"), LoopVar("k")
    a = dense("A", (m, k), Scope.INPUT)
    b = Buffer(
        "B",
        "float32",
        (panels * width, k, width),
        (k, width, 1),
        (width, 1, 1),
        Scope.CONSTANT,
        panels * width * k,
    )
    c = dense("C", (m, n), Scope.OUTPUT)
    acc = dense("acc", (rows, width), Scope.LOCAL)
    shape = (rows, width)

    def clear(r: LoopVar, v: LoopVar, lane: LoopVar) -> Node:
        return Store((acc,), (plus(r), plus(v, lane)), (Const(0.0, "float32"),))

    def update(r: LoopVar, v: LoopVar, lane: LoopVar) -> Node:
        product = binary(
            "mul",
            BufferLoad(a, (plus(i, r), plus(kk))),
            BufferLoad(b, (plus(j), plus(kk), plus(v, lane))),
        )
        return Store(
            (acc,), (plus(r), plus(v, lane)), (product,), reducer(), (Predicate(plus(i, r), 0, m),)
        )

    def write(r: LoopVar, v: LoopVar, lane: LoopVar) -> Node:
        return Store(
            (c,),
            (plus(i, r), plus(j, v, lane)),
            (BufferLoad(acc, (plus(r), plus(v, lane))),),
            None,
            (Predicate(plus(i, r), 0, m), Predicate(plus(j, v, lane), 0, n)),
        )

    reduction = loop(kk, k, SERIAL, tile_loops("u", shape, lanes, update), reduce=True)
    body = Allocate(
        acc, (tile_loops("i", shape, lanes, clear), reduction, tile_loops("o", shape, lanes, write))
    )
    inner = loop(i, -(-m // rows), PARALLEL, body, step=rows)
    return LoopNest("matmul", (a, b, c), (), (loop(j, panels, PARALLEL, inner, step=width),))


def pack_panels(matrix: NDArray[Any], width: int) -> NDArray[Any]:
    """[K, N] to [panels, K, width], zero-padded."""
    k, n = matrix.shape
    panels = -(-n // width)
    padded = np.zeros((k, panels * width), matrix.dtype)
    padded[:, :n] = matrix
    return np.ascontiguousarray(padded.reshape(k, panels, width).transpose(1, 0, 2))


def conv(
    size: int,
    channels: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    pad: int = 1,
    tile: tuple[int, int] = (1, 7),
    vectors: int = 1,
    lanes: int = 16,
) -> LoopNest:
    """A padded 2-d convolution with bias and ReLU, weights in panels of ``vectors * lanes``."""
    out = (size + 2 * pad - kernel) // stride + 1
    width = vectors * lanes
    panels = -(-outputs // width)
    oh, ow, oc = LoopVar("oh"), LoopVar("ow"), LoopVar("oc")
    kh, kw, ic = LoopVar("kh"), LoopVar("kw"), LoopVar("ic")
    x = dense("X", (size, size, channels), Scope.INPUT)
    area = kernel * kernel * channels
    w = Buffer(
        "W",
        "float32",
        (panels * width, kernel, kernel, channels, width),
        (area, kernel * channels * width, channels * width, width, 1),
        (width, 1, 1, 1, 1),
        Scope.CONSTANT,
        panels * width * area,
    )
    bias = dense("bias", (outputs,), Scope.CONSTANT)
    y = dense("Y", (out, out, outputs), Scope.OUTPUT)
    shape = (*tile, width)
    acc = dense("acc", shape, Scope.LOCAL)

    def rows(a: LoopVar, b: LoopVar) -> tuple[Predicate, ...]:
        return Predicate(plus(oh, a), 0, out), Predicate(plus(ow, b), 0, out)

    def clear(a: LoopVar, b: LoopVar, c: LoopVar, lane: LoopVar) -> Node:
        return Store((acc,), (plus(a), plus(b), plus(c, lane)), (Const(0.0, "float32"),))

    def update(a: LoopVar, b: LoopVar, c: LoopVar, lane: LoopVar) -> Node:
        ih = plus((oh, stride), (a, stride), kh, const=-pad)
        iw = plus((ow, stride), (b, stride), kw, const=-pad)
        product = binary(
            "mul",
            BufferLoad(x, (ih, iw, plus(ic))),
            BufferLoad(w, (plus(oc), plus(kh), plus(kw), plus(ic), plus(c, lane))),
        )
        inside = (Predicate(ih, 0, size), Predicate(iw, 0, size))
        return Store(
            (acc,), (plus(a), plus(b), plus(c, lane)), (product,), reducer(), (*rows(a, b), *inside)
        )

    def write(a: LoopVar, b: LoopVar, c: LoopVar, lane: LoopVar) -> Node:
        channel = plus(oc, c, lane)
        value: Expr = BufferLoad(acc, (plus(a), plus(b), plus(c, lane)))
        value = binary("max", binary("add", value, BufferLoad(bias, (channel,))), 0.0)
        return Store(
            (y,),
            (plus(oh, a), plus(ow, b), channel),
            (value,),
            None,
            (*rows(a, b), Predicate(channel, 0, outputs)),
        )

    reduction: Node = tile_loops("u", shape, lanes, update)
    for var, extent in ((ic, channels), (kw, kernel), (kh, kernel)):
        reduction = loop(var, extent, SERIAL, reduction, reduce=True)
    node: Node = Allocate(
        acc, (tile_loops("i", shape, lanes, clear), reduction, tile_loops("o", shape, lanes, write))
    )
    node = loop(ow, -(-out // tile[1]), PARALLEL, node, step=tile[1])
    node = loop(oh, -(-out // tile[0]), PARALLEL, node, step=tile[0])
    return LoopNest("conv", (x, w, bias, y), (), (loop(oc, panels, PARALLEL, node, step=width),))


def two_level_sums(size: int = 24, outer: int = 12, tile: int = 4, taps: int = 3) -> LoopNest:
    """``y[n] = sum of x[n + k - 1]`` inside the array: tiles within tiles of one axis."""
    o, i, r, k = LoopVar("o"), LoopVar("i"), LoopVar("r"), LoopVar("k")
    x, y = dense("x", (size,), Scope.INPUT), dense("y", (size,), Scope.OUTPUT)
    zero = Store((y,), (plus(o, i, r),), (Const(0.0, "float32"),))
    term, inside = plus(o, i, r, k, const=-1), Predicate(plus(o, i, r, k, const=-1), 0, size)
    add = Store((y,), (plus(o, i, r),), (BufferLoad(x, (term,)),), reducer(), (inside,))
    body = (
        loop(r, tile, UNROLLED, zero),
        loop(k, taps, SERIAL, loop(r, tile, UNROLLED, add), reduce=True),
    )
    inner = loop(i, outer // tile, SERIAL, *body, step=tile)
    return LoopNest("sums", (x, y), (), (loop(o, size // outer, PARALLEL, inner, step=outer),))


def conv_arrays(nest: LoopNest, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random arguments of any nest, by name, in their stored size."""
    return {
        buffer.name: rng.standard_normal(int(buffer.size)).astype(np.float32)
        for buffer in nest.arguments
        if buffer.scope is not Scope.OUTPUT
    }
