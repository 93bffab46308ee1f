"""One lowering for ints and arrays: every number of the batch equals that of the single rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import LoweringError
from sketch.lang.affine import UNBOUNDED
from sketch.lang.expr import Expr, cast, select
from sketch.lang.rewrite import children
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.lower.body import merge_predicates
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopNest,
    LoopVar,
    Num,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import walk
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from sketch.verify import verify
from tests.support.examples import half
from tests.support.targets import AVX512, ODD, SMALL
from tests.support.workloads import WORKLOADS, conv2d_relu, matmul_dag


def numbers(nest: LoopNest) -> list[Num]:
    """Every decision-dependent number of a nest, in a fixed order."""
    found: list[Num] = []

    def add(buffer: Buffer) -> None:
        found.extend((*buffer.shape, *buffer.strides, *buffer.steps, buffer.size))

    for buffer in (*nest.arguments, *nest.workspaces):
        add(buffer)
    for node in walk(nest.roots):
        match node:
            case Loop():
                found.extend((node.extent, node.stride))
            case Allocate():
                add(node.buffer)
            case Store():
                for predicate in node.predicates:
                    found.extend((predicate.low, predicate.high))
                found.extend(p for index in node.indices for p in _coefficients(index))
                pending = list(node.values)
                while pending:
                    value = pending.pop()
                    if isinstance(value, BufferLoad):
                        add(value.buffer)
                    pending.extend(children(value))
    return found


def _coefficients(index: object) -> tuple[int, ...]:
    terms = getattr(index, "terms", ())
    return tuple(c for _, c in terms)


def sketches_of(target: Target) -> list[Sketch]:
    return [s for make in WORKLOADS.values() for s in generate(make(), target)]


@pytest.mark.parametrize(
    "target",
    [
        *(pytest.param(target, marks=pytest.mark.slow) for target in (SMALL, ODD)),
        AVX512,
        cuda_target(),
    ],
    ids=["4", "8", "16", "gpu"],
)
@pytest.mark.parametrize("seed", half(range(2)))
def test_batch_equals_single(target: Target, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for sketch in sketches_of(target):
        population = sample(sketch, 3, rng)
        batch = numbers(lower(sketch, population.columns()))
        for row in range(population.count):
            single = numbers(lower(sketch, population.row(row)))
            assert len(single) == len(batch)
            for one, many in zip(single, batch, strict=True):
                assert isinstance(one, int)
                assert one == np.broadcast_to(many, population.count)[row]


def test_a_missing_decision_is_named() -> None:
    sketch = generate(matmul_dag(), AVX512)[0]
    with pytest.raises(LoweringError, match=r"no value for decision 'C\.i@1'"):
        lower(sketch, {d: 1 for d, label in sketch.labels.items() if label != "C.i@1"})


def test_padding_is_a_predicate_not_a_value() -> None:
    sketch = generate(conv2d_relu(), AVX512)[0]
    nest = lower(sketch, {d.id: d.choices[0] for d in sketch.decisions})
    updates = [n for n in walk(nest.roots) if isinstance(n, Store) and n.reducer is not None]
    assert len(updates) == 1
    bounds = {(p.low, p.high) for p in updates[0].predicates}
    assert (0, 9) in bounds


def test_constants_are_packed_and_inputs_are_not() -> None:
    sketch = generate(matmul_dag(24, 40, 36), AVX512)[0]
    values = {d.id: d.choices[0] for d in sketch.decisions}
    arguments = {b.name: b for b in lower(sketch, values).arguments}
    assert arguments["A"].scope is Scope.INPUT
    assert (arguments["A"].shape, arguments["A"].steps) == ((24, 36), (1, 1))
    width = 16
    assert arguments["B"].scope is Scope.CONSTANT
    panels = -(-40 // width)
    assert arguments["B"].shape == (panels * width, 36, width)
    assert arguments["B"].steps == (width, 1, 1)


def test_accumulators_live_inside_the_tile(golden: Callable[[str, str], None]) -> None:
    lines = []
    for sketch in generate(conv2d_relu(), AVX512):
        nest = lower(sketch, {d.id: d.choices[0] for d in sketch.decisions})
        for node in walk(nest.roots):
            if isinstance(node, Loop):
                lines.append(f"{node.var.name} {node.extent} {node.stride} {node.kind.value}")
            elif isinstance(node, Allocate):
                lines.append(f"allocate {node.buffer.name} {node.buffer.shape}")
    golden("conv2d_relu_loops", "\n".join(lines))


def test_guards_over_forms_that_differ_by_a_constant_are_intersected() -> None:
    place = LoopVar("i")
    guard = Predicate(Affine(((place, 1),)), 2, UNBOUNDED)
    bound = Predicate(Affine(((place, 1),), -1), 0, 10)
    ((first,), (second,)) = merge_predicates((guard, bound)), merge_predicates((bound, guard))
    assert (first.index.const, first.low, first.high) == (0, 2, 11)
    assert (second.index.const, second.low, second.high) == (-1, 1, 10)


@pytest.mark.parametrize(
    "guard",
    [
        lambda i: -i > -10,
        lambda i: cast(i, "int32") < 10,
        lambda i: cast(-cast(i, "int32"), "int64") + 9 >= 0,
        lambda i: ~(-i <= -10),
    ],
)
def test_guards_are_known_however_the_index_is_written(guard: Callable[[Expr], Expr]) -> None:
    data = placeholder((10,), name="X")
    dag = ComputeDAG([compute((20,), lambda i: select(guard(i), data[i], 0.0), name="Y")])
    nest = lower(Sketch(dag, (), SMALL), {})
    verify(nest)
    given = np.arange(1, 11, dtype=np.float32)
    assert run_nest(nest, {"X": given})["Y"].tolist() == [*given, *[0.0] * 10]


@pytest.mark.parametrize("shift", [-29, 10])
def test_indices_that_are_always_outside_are_kept_inside(shift: int) -> None:
    data, where = placeholder((10,), name="X"), placeholder((20,), dtype="bool", name="W")

    def element(i: Expr) -> Expr:
        return select(where[i], data[cast(i + shift, "int16")], 1.0)

    nest = lower(Sketch(ComputeDAG([compute((20,), element, name="Y")]), (), SMALL), {})
    verify(nest)
    given = {"X": np.zeros(10, np.float32), "W": np.arange(20) % 2 == 0}
    assert run_nest(nest, given)["Y"].tolist() == [0.0, 1.0] * 10
