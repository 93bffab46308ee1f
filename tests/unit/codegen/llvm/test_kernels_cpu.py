"""Compiled nests against the interpreter, on every instruction set of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from codegen.build import build
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, binary, cast, select, unary
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    AffineValue,
    Allocate,
    BufferLoad,
    LoopNest,
    LoopVar,
    Predicate,
    Quasi,
    Scope,
    Store,
)
from sketch.target.target import Target
from tests.support.cpu_targets import in_turns, instruction_sets
from tests.support.nests import (
    PARALLEL,
    SERIAL,
    VECTORIZED,
    conv,
    conv_arrays,
    dense,
    execute,
    loop,
    matmul,
    plus,
    reducer,
    two_level_sums,
)
from tests.support.targets import AVX512

TARGETS = instruction_sets()


def softmax(rows: int = 5, columns: int = 19) -> LoopNest:
    """Three roots: maxima, sums of exponentials, quotients; values pass through workspaces."""
    x, y = dense("x", (rows, columns), Scope.INPUT), dense("y", (rows, columns), Scope.OUTPUT)
    top, total = dense("top", (rows,), Scope.WORKSPACE), dense("total", (rows,), Scope.WORKSPACE)
    i, j = LoopVar("i"), LoopVar("j")
    here = BufferLoad(x, (plus(i), plus(j)))
    power = unary("exp", binary("sub", here, BufferLoad(top, (plus(i),))))

    def reduction(target, value, kind):
        return loop(
            i,
            rows,
            PARALLEL,
            Store((target,), (plus(i),), (reducer(kind).identity[0],)),
            loop(
                j,
                columns,
                SERIAL,
                Store((target,), (plus(i),), (value,), reducer(kind)),
                reduce=True,
            ),
        )

    quotient = Store(
        (y,), (plus(i), plus(j)), (binary("div", power, BufferLoad(total, (plus(i),))),)
    )
    return LoopNest(
        "softmax",
        (x, y),
        (top, total),
        (
            reduction(top, here, "max"),
            reduction(total, power, "sum"),
            loop(i, rows, PARALLEL, loop(j, columns, VECTORIZED, quotient)),
        ),
    )


def argmax(rows: int = 6, columns: int = 11) -> LoopNest:
    """A tuple reducer over two outputs, vectorised over the rows."""
    x = dense("x", (columns, rows), Scope.INPUT)
    where, best = (
        dense("where", (rows,), Scope.OUTPUT, "int64"),
        dense("best", (rows,), Scope.OUTPUT),
    )
    i, k = LoopVar("i"), LoopVar("k")
    pair = reducers.argmax(Const(0, "int64"), Const(0.0, "float32"), Axis("k", 1, "reduce"))
    clear = Store((where, best), (plus(i),), pair.reducer.identity)
    update = Store(
        (where, best),
        (plus(i),),
        (AffineValue(plus(k)), BufferLoad(x, (plus(k), plus(i)))),
        pair.reducer,
    )
    return LoopNest(
        "argmax",
        (x, where, best),
        (),
        (
            loop(i, rows, VECTORIZED, clear),
            loop(k, columns, SERIAL, loop(i, rows, VECTORIZED, update), reduce=True),
        ),
    )


def gather(rows: int = 5, columns: int = 7) -> LoopNest:
    """y[i, j] = table[index[i], 6 - j] + table[(3*i + j) // 4 % 5, j]: loads by index."""
    table = dense("table", (rows, columns), Scope.INPUT)
    index = dense("index", (rows,), Scope.INPUT, "int32")
    y = dense("y", (rows, columns), Scope.OUTPUT)
    i, j = LoopVar("i"), LoopVar("j")
    row = Quasi(cast(BufferLoad(index, (plus(i),)), "int64"), 0, rows - 1)
    quotient = binary("floordiv", AffineValue(plus((i, 3), j)), 4)
    other = Quasi(binary("mod", quotient, 5), 0, rows - 1)
    value = binary(
        "add",
        BufferLoad(table, (row, plus((j, -1), const=columns - 1))),
        BufferLoad(table, (other, plus(j))),
    )
    store = Store((y,), (plus(i), plus(j)), (value,))
    return LoopNest(
        "gather",
        (table, index, y),
        (),
        (loop(i, rows, SERIAL, loop(j, columns, VECTORIZED, store)),),
    )


def transpose(rows: int = 9, columns: int = 13) -> LoopNest:
    """A scatter: vectors along the rows of the source, columns of the target."""
    x, y = dense("x", (rows, columns), Scope.INPUT), dense("y", (columns, rows), Scope.OUTPUT)
    i, j = LoopVar("i"), LoopVar("j")
    store = Store((y,), (plus(j), plus(i)), (BufferLoad(x, (plus(i), plus(j))),))
    return LoopNest(
        "transpose", (x, y), (), (loop(i, rows, PARALLEL, loop(j, columns, VECTORIZED, store)),)
    )


def padded_copy(size: int = 6, pad: int = 2) -> LoopNest:
    """Selects that index out of bounds where they are not taken, in a private buffer."""
    full = size + 2 * pad
    x, y = dense("x", (size, size), Scope.INPUT), dense("y", (full, full), Scope.OUTPUT)
    copy = dense("copy", (full,), Scope.LOCAL)
    i, j, n = LoopVar("i"), LoopVar("j"), LoopVar("n")

    def inside(var: LoopVar):
        at = AffineValue(plus(var, const=-pad))
        return binary("and", binary("ge", at, 0), binary("lt", at, size))

    value = select(
        binary("and", inside(i), inside(j)),
        BufferLoad(x, (plus(i, const=-pad), plus(j, const=-pad))),
        -1.0,
    )
    body = Allocate(
        copy,
        (
            loop(j, full, VECTORIZED, Store((copy,), (plus(j),), (value,))),
            loop(n, full, SERIAL, Store((y,), (plus(i), plus(n)), (BufferLoad(copy, (plus(n),)),))),
        ),
    )
    return LoopNest("padded_copy", (x, y), (), (loop(i, full, PARALLEL, body),))


def integers(count: int = 21) -> LoopNest:
    """Floor division, modulo, minima, comparisons and bools of int32."""
    a, b = (dense(name, (count,), Scope.INPUT, "int32") for name in "ab")
    flag = dense("flag", (count,), Scope.INPUT, "bool")
    y, z = dense("y", (count,), Scope.OUTPUT, "int32"), dense("z", (count,), Scope.OUTPUT, "bool")
    i = LoopVar("i")
    lhs, rhs = BufferLoad(a, (plus(i),)), BufferLoad(b, (plus(i),))
    value = binary("add", binary("floordiv", lhs, rhs), binary("mul", binary("mod", lhs, rhs), 100))
    value = select(BufferLoad(flag, (plus(i),)), value, binary("min", lhs, rhs))
    test = binary("or", binary("lt", lhs, rhs), BufferLoad(flag, (plus(i),)))
    store = Store((y,), (plus(i),), (value,))
    return LoopNest(
        "integers",
        (a, b, flag, y, z),
        (),
        (
            loop(i, count, VECTORIZED, store),
            loop(i, count, SERIAL, Store((z,), (plus(i),), (test,))),
        ),
    )


def large_private(rows: int = 3, size: int = 9000) -> LoopNest:
    """A private buffer too large for the stack."""
    x, y = dense("x", (rows, size), Scope.INPUT), dense("y", (rows, size), Scope.OUTPUT)
    copy = dense("copy", (size,), Scope.LOCAL)
    i, j, n = LoopVar("i"), LoopVar("j"), LoopVar("n")
    body = Allocate(
        copy,
        (
            loop(
                j,
                size,
                SERIAL,
                Store(
                    (copy,), (plus(j),), (binary("mul", BufferLoad(x, (plus(i), plus(j))), 2.0),)
                ),
            ),
            loop(
                n,
                size,
                SERIAL,
                Store(
                    (y,), (plus(i), plus(n)), (BufferLoad(copy, (plus((n, -1), const=size - 1),)),)
                ),
            ),
        ),
    )
    return LoopNest("large_private", (x, y), (), (loop(i, rows, PARALLEL, body),))


def dynamic_guards() -> LoopNest:
    """Predicates and clips that stay: on two outer variables, on lanes, on a reversed loop."""
    x, y = dense("x", (40,), Scope.INPUT), dense("y", (30,), Scope.OUTPUT)
    i, j, k, u = LoopVar("i"), LoopVar("j"), LoopVar("k"), LoopVar("u")
    acc = dense("acc", (8,), Scope.LOCAL)
    lane = LoopVar("lane")
    clear = Store((acc,), (plus(lane),), (Const(0.0, "float32"),))
    taps = (Predicate(plus((k, -3), i, const=2), -4, 9), Predicate(plus(i, j, lane, k), 2, 33))
    update = Store((acc,), (plus(lane),), (BufferLoad(x, (plus(i, j, lane, k),)),), reducer(), taps)
    write = Store(
        (y,),
        (plus(i, j, u),),
        (BufferLoad(acc, (plus(u),)),),
        None,
        (Predicate(plus(i, j, u), 0, 30),),
    )
    body = Allocate(
        acc,
        (
            loop(lane, 8, VECTORIZED, clear),
            loop(k, 7, SERIAL, loop(lane, 8, VECTORIZED, update), reduce=True),
            loop(u, 8, VECTORIZED, write),
        ),
    )
    return LoopNest(
        "dynamic_guards",
        (x, y),
        (),
        (loop(i, 2, PARALLEL, loop(j, 2, SERIAL, body, step=8), step=16),),
    )


NESTS: dict[str, Callable[[], LoopNest]] = {
    "matmul": lambda: matmul(13, 37, 9, rows=4, vectors=2, lanes=8),
    "matmul_prime": lambda: matmul(7, 11, 5, rows=5, vectors=1, lanes=3),
    "conv_7": lambda: conv(7, 5, 6, tile=(1, 7), lanes=8),
    "conv_14": lambda: conv(14, 3, 9, tile=(1, 4), lanes=8),
    "conv_rows": lambda: conv(9, 2, 8, tile=(2, 4), lanes=4, vectors=2),
    "conv_odd": lambda: conv(11, 3, 5, kernel=5, stride=2, pad=3, tile=(1, 3), lanes=4),
    "conv_pixel": lambda: conv(6, 4, 8, kernel=5, pad=2, tile=(1, 1), lanes=8),
    "two_level_sums": two_level_sums,
    "softmax": softmax,
    "argmax": argmax,
    "gather": gather,
    "transpose": transpose,
    "padded_copy": padded_copy,
    "integers": integers,
    "large_private": large_private,
    "dynamic_guards": dynamic_guards,
}


def arrays_of(nest: LoopNest, rng: np.random.Generator) -> dict[str, np.ndarray]:
    arrays = conv_arrays(nest, rng)
    for buffer in nest.arguments:
        if buffer.name in arrays and buffer.dtype == "int32":
            values = (
                rng.integers(0, 5, int(buffer.size))
                if buffer.name == "index"
                else (rng.choice([-9, -7, -4, -1, 1, 2, 3, 8], int(buffer.size)))
            )
            arrays[buffer.name] = values.astype(np.int32)
        elif buffer.name in arrays and buffer.dtype == "bool":
            arrays[buffer.name] = rng.random(int(buffer.size)) < 0.5
    return arrays


@cache
def interpreted(name: str) -> tuple[LoopNest, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A nest, its inputs, and what the interpreter makes of them: the same for every target."""
    nest = NESTS[name]()
    arrays = arrays_of(nest, np.random.default_rng(0))
    return nest, arrays, run_nest(nest, arrays)


def check(name: str, target: Target) -> None:
    nest, arrays, expected = interpreted(name)
    result = execute(nest, arrays, target)
    for output, values in expected.items():
        np.testing.assert_allclose(result[output], values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "target"), in_turns(sorted(NESTS), TARGETS))
def test_equals_interpreter(name: str, target: Target) -> None:
    check(name, target)


@pytest.mark.parametrize("name", ["matmul", "conv_14", "softmax", "large_private"])
def test_three_threads(name: str) -> None:
    check(name, TARGETS[0].with_threads(3))


def test_a_small_budget_leaves_guards_dynamic() -> None:
    tight = Target(
        "cpu",
        TARGETS[0].arch,
        TARGETS[0].features,
        instruction_budget=1,
        vector_bytes=64,
        registers=32,
    )
    for name in ("matmul_prime", "conv_rows", "conv_odd"):
        check(name, tight)


def test_nan_and_infinity_in_padding_do_not_leak(rng: np.random.Generator) -> None:
    nest = conv(5, 2, 4, tile=(1, 3), lanes=4)
    arrays = dict(arrays_of(nest, rng))
    arrays["W"] = np.where(rng.random(arrays["W"].size) < 0.05, np.inf, arrays["W"]).astype(
        np.float32
    )
    expected, result = run_nest(nest, arrays), execute(nest, arrays, TARGETS[0])
    np.testing.assert_allclose(result["Y"], expected["Y"], rtol=1e-4, atol=1e-5)


def test_minimum_and_maximum_propagate_nan() -> None:
    a, b = (dense(name, (4,), Scope.INPUT) for name in "ab")
    i = LoopVar("i")
    outputs = []
    roots = []
    for op in ("min", "max"):
        for name, rhs in (("pair", BufferLoad(b, (plus(i),))), ("literal", Const(0.0, "float32"))):
            y = dense(f"{op}_{name}", (4,), Scope.OUTPUT)
            outputs.append(y)
            value = binary(op, BufferLoad(a, (plus(i),)), rhs)
            roots.append(loop(i, 4, VECTORIZED, Store((y,), (plus(i),), (value,))))
    nest = LoopNest("extrema", (a, b, *outputs), (), tuple(roots))
    arrays = {
        "a": np.array([np.nan, 1, -2, 3], np.float32),
        "b": np.array([1, np.nan, 5, np.inf], np.float32),
    }
    result = execute(nest, arrays, TARGETS[0])
    for op, function in (("min", np.minimum), ("max", np.maximum)):
        np.testing.assert_array_equal(result[f"{op}_pair"], function(arrays["a"], arrays["b"]))
        np.testing.assert_array_equal(result[f"{op}_literal"], function(arrays["a"], 0))


@pytest.mark.parametrize("name", sorted(NESTS))
def test_neon_compiles(name: str) -> None:
    target = Target("cpu", "generic", "+neon", vector_bytes=16, registers=32)
    kernel = build(NESTS[name](), target)
    assert kernel.object_code[:4] == b"\x7fELF" and kernel.instructions > 0


def test_conv_loop_does_not_spill() -> None:
    from codegen.build import emit
    from codegen.llvm.machine import emit_assembly

    # A longer sum is one of blocks, and waits in memory for the next one.
    text = emit(conv(28, 14, 32, tile=(1, 14), vectors=2), AVX512, "k").text
    lines = emit_assembly(text, AVX512).splitlines()
    assert sum("vfmadd" in line for line in lines) == 26 + 28 + 26  # a tap at each edge lacks one
    assert not [line for line in lines if "zmm" in line and "rsp" in line]


def test_unrolled_accumulators_stay_in_registers() -> None:
    from codegen.build import emit

    text = emit(matmul(8, 32, 9, rows=4, vectors=2), AVX512, "k").text
    assert "alloca" not in text and text.count(" = phi <16 x float>") == 8
