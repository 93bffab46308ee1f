"""A kernel whose output lies where an input did computes the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st

from codegen.build import build
from codegen.kernel import Kernel
from codegen.llvm.jit import call, load
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.expr import Expr, binary
from sketch.lang.functions import exp
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.cpu_targets import runnable
from tests.support.examples import examples
from tests.support.random_programs import NUMBERS, converted, expression
from tests.support.teams import team_address

TARGETS = [target for one in runnable() for target in (one, replace(one, threads=2))]
COMMON = examples(
    120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


WIDTHS = st.sampled_from([1, 3, 9, 16, 37])


@st.composite
def maps(draw: Any) -> ComputeDAG:
    """An expression of elements: the same ones, of other rows, turned, or spread."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 9), WIDTHS))
    a, b, c = shape
    dtypes = draw(st.tuples(*[st.sampled_from(NUMBERS)] * 3))
    x, y = (placeholder(shape, d, n) for d, n in zip(dtypes[:2], "xy", strict=True))
    z = placeholder((a, b, b), dtypes[2], "z")
    s = placeholder((a, 1, c), dtypes[0], "s")

    def element(i: Expr, j: Expr, k: Expr) -> Expr:
        others = [y[i, j, k], y[a - 1 - i, j, k], s[i, 0, k], x[i, b - 1 - j, k]]
        others += [z[i, k, j], z[i, j, k]] if b == c else []
        leaves = [x[i, j, k], *draw(st.lists(st.sampled_from(others), max_size=2))]
        value = expression(draw, leaves, draw(st.integers(0, 2)))
        return converted(value, draw(st.sampled_from([*[dtypes[0]] * 20, *NUMBERS])))

    return ComputeDAG([compute(shape, element, name="out")])


@st.composite
def sums(draw: Any) -> ComputeDAG:
    """Products, windows, or normalised rows, and what is added to them, or multiplies them."""
    rows, terms, columns = draw(st.integers(1, 20)), draw(st.integers(1, 40)), draw(WIDTHS)
    r = placeholder((rows, columns), name="r")
    x = placeholder((rows + 2, terms), name="x")
    w = placeholder((terms, columns), name="w", constant=draw(st.booleans()))
    y = placeholder((rows, columns), name="y")
    k, t = reduce_axis(terms), reduce_axis(3)
    kind = draw(st.sampled_from(["product", "windows", "softmax", "row"]))
    if kind == "softmax":
        j, n = reduce_axis(columns), reduce_axis(columns)
        most = compute((rows,), lambda i: reducers.max(y[i, j], j), name="most")
        power = compute((rows, columns), lambda i, c: exp(y[i, c] - most[i]), name="power")
        whole = compute((rows,), lambda i: reducers.sum(power[i, n], n), name="whole")
        first = compute((rows, columns), lambda i, c: power[i, c] / whole[i], name="share")
    elif kind == "row":
        j = reduce_axis(columns)
        whole = compute((rows,), lambda i: reducers.sum(r[i, j], j), name="whole")
        first = compute((rows, columns), lambda i, c: y[i, c] - whole[i], name="centred")
    elif kind == "windows":
        taps = reducers.sum
        first = compute(
            (rows, columns), lambda i, c: taps(x[i + t, k] * w[k, c], (t, k)), name="first"
        )
    else:
        first = compute((rows, columns), lambda i, c: reducers.sum(x[i, k] * w[k, c], k), name="p")
    joined = draw(st.sampled_from(["add", "mul", "max"]))
    out = lambda i, c: binary("max", binary(joined, first[i, c], r[i, c]), -1.0)  # noqa: E731
    return ComputeDAG([compute((rows, columns), out, name="out")])


def arrays_of(kernel: Kernel, rng: np.random.Generator) -> list[np.ndarray]:
    found = []
    for argument in kernel.arguments:
        dtype = numpy_dtype(argument.dtype)
        found.append(rng.integers(0, 5, argument.shape).astype(dtype))
    return found


@COMMON
@given(
    maps() | sums(), st.integers(0, len(TARGETS) - 1), st.integers(0, 7), st.integers(0, 2**32 - 1)
)
def test_the_output_may_lie_where_the_kernel_says(
    dag: ComputeDAG, target: int, choice: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    machine: Target = TARGETS[target]
    sketches = generate(dag, machine)
    sketch = sketches[choice % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    kernel = build(lower(sketch, row), machine)
    library = load([kernel])
    address, team = library.address(kernel.symbol), team_address(machine.threads)
    workspace = np.zeros(kernel.workspace_bytes, np.uint8)
    *inputs, result = arrays_of(kernel, rng)
    event(f"{len(kernel.overwrites)} of {len(inputs)}")
    call(address, [*inputs, result], workspace, team)
    for number, argument in enumerate(kernel.arguments[:-1]):
        if argument.name in kernel.overwrites:
            given = [array.copy() for array in inputs]
            shared = given[number].view(result.dtype).reshape(result.shape)
            call(address, [*given, shared], workspace, team)
            assert shared.tobytes() == result.tobytes()
