"""The verifier accepts what lowering makes and names what is wrong in broken nests."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import LoweringError
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.lang.functions import equal, maximum, minimum
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import Compute, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.lower.buffers import dense_buffer
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Predicate,
    Scope,
    Store,
)
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Split
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from sketch.verify import verify
from sketch.verify.facts import Facts
from tests.support.examples import half
from tests.support.targets import ODD, SMALL
from tests.support.workloads import WORKLOADS


@pytest.mark.parametrize("seed", half(range(2)))
@pytest.mark.parametrize("target", [SMALL, ODD], ids=["4 lanes", "8 lanes"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_lowered_row_passes(name: str, target: Target, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for sketch in generate(WORKLOADS[name](), target):
        population = sample(sketch, 3, rng)
        for row in range(population.count):
            verify(lower(sketch, population.row(row)))


OUT = dense_buffer("out", "float32", (8,), Scope.OUTPUT)
II, J = LoopVar("i"), LoopVar("j")
ZERO, ONE = Const(0.0, "float32"), Const(1.0, "float32")
STAGE = Compute("out", (), (ZERO,))


def nest(
    *loops: tuple[LoopVar, int, int, LoopKind], index: Affine, out: Buffer = OUT, **options: object
) -> LoopNest:
    node: object = Store((out,), (index,), (ZERO,), stage=STAGE, **options)  # type: ignore[arg-type]
    for var, extent, stride, kind in reversed(loops):
        node = Loop(var, extent, stride, kind, "spatial", (node,))  # type: ignore[arg-type]
    return LoopNest("out", (out,), (), (node,))  # type: ignore[arg-type]


SERIAL, PARALLEL, VECTOR = LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.VECTORIZED


def test_a_tail_needs_its_predicate() -> None:
    index = Affine(((II, 1), (J, 1)))
    loops = ((II, 3, 3, SERIAL), (J, 3, 1, SERIAL))
    with pytest.raises(LoweringError, match=r"writes out at 0\.\.8 of dimension 0, which has 8"):
        verify(nest(*loops, index=index))
    verify(nest(*loops, index=index, predicates=(Predicate(index, 0, 8),)))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (nest((II, 8, 1, SERIAL), index=Affine(((J, 1),))), "variable j is used outside its loop"),
        (
            nest((II, 4, 2, PARALLEL), (J, 3, 1, SERIAL), index=Affine(((II, 1), (J, 1)), -1)),
            "writes out at -1",
        ),
        (
            nest((II, 3, 2, PARALLEL), (J, 4, 1, SERIAL), index=Affine(((II, 1), (J, 1)))),
            "write the same elements",
        ),
        (nest((II, 8, 1, PARALLEL), index=Affine(((II, 0),))), "write the same elements"),
        (nest((II, 2, 4, SERIAL), (J, 4, 1, PARALLEL), index=Affine(((II, 1), (J, 1)))), "inside"),
        (nest((II, 2, 4, VECTOR), index=Affine(((II, 1),))), "vectorised loop with stride 4"),
        (nest((II, 2, 1, VECTOR), (J, 4, 2, SERIAL), index=Affine(((II, 1), (J, 1)))), "inside a"),
        (nest((II, 0, 1, SERIAL), index=Affine(((II, 1),))), "extent 0"),
    ],
)
def test_broken_nests_are_named(broken: LoopNest, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        verify(broken)


def test_a_private_buffer_does_not_escape() -> None:
    private = dense_buffer("acc", "float32", (8,), Scope.LOCAL)
    store = Store((private,), (Affine(((II, 1),)),), (ZERO,))
    body = Loop(II, 8, 1, SERIAL, "spatial", (store,))
    with pytest.raises(LoweringError, match="buffer acc is used outside its allocation"):
        verify(LoopNest("out", (OUT,), (), (body,)))


def test_one_stage_starts_and_sums_a_buffer() -> None:
    """Another stage of the same name is another stage."""
    tensor = compute((), lambda: sum_(ONE, axis=reduce_axis(8)))
    index, reducer = Affine(((II, 1),)), tensor.op.reduce.reducer

    def loop(store: Store) -> Loop:
        return Loop(II, 8, 1, SERIAL, "spatial", (store,))

    def made(first: Compute, second: Compute) -> LoopNest:
        private = dense_buffer("acc", "float32", (8,), Scope.LOCAL)
        start = Store((private,), (index,), (ZERO,), stage=first)
        update = Store((private,), (index,), (ONE,), reducer, stage=second)
        copy = Store((OUT,), (index,), (BufferLoad(private, (index,)),))
        inside = (loop(start), loop(update), loop(copy))
        return LoopNest("out", (OUT,), (), (Allocate(private, inside),))

    verify(made(STAGE, STAGE))
    with pytest.raises(LoweringError, match="acc is written by two statements"):
        verify(made(STAGE, Compute("out", (), (ZERO,))))


@pytest.mark.parametrize("padded", [False, True])
def test_digits_of_a_flat_index_keep_iterations_apart(padded: bool) -> None:
    """Rows of 3 in tiles of 2 overrun into the next row, unless a predicate stops them."""
    column, inner = LoopVar("column"), LoopVar("inner")
    place = Affine(((II, 3), (column, 1), (inner, 1)))
    within = Predicate(Affine(((column, 1), (inner, 1))), 0, 3)
    made = nest(
        (II, 2, 1, LoopKind.PARALLEL),
        (column, 2, 2, LoopKind.PARALLEL),
        (inner, 2, 1, LoopKind.SERIAL),
        index=place,
        out=dense_buffer("out", "float32", (6,), Scope.OUTPUT),
        predicates=(within,) if padded else (Predicate(place, 0, 6),),
    )
    if padded:
        verify(made)
    else:
        with pytest.raises(LoweringError, match="write the same elements"):
            verify(made)


def test_every_predicate_is_tried_alone() -> None:
    """A clipped tile, a bound over all loops, and a guard that has one loop more."""
    tile, inside, tap = LoopVar("tile"), LoopVar("inside"), LoopVar("tap")
    both = Affine(((tile, 1), (inside, 1)))
    place = Affine(((tile, 2), (inside, 2), (tap, 1)), -5)
    predicates = (Predicate(Affine(((tile, 1),)), 0, 13), Predicate(both, 0, 13),
                  Predicate(place, 0, 99))  # fmt: skip
    reaches = {tile: 15, inside: 2, tap: 0}
    facts = Facts(reaches, dict.fromkeys(reaches, 1), predicates)
    assert facts.within(place, 20)
    assert not facts.within(place, 19)


def test_a_form_is_taken_out_as_often_as_an_index_has_it_at_least() -> None:
    """9 i + 10 j where 0 <= i + j <= 10, and where j < 9 bounds what is left."""
    i, j = LoopVar("i"), LoopVar("j")
    both, place = Affine(((i, 1), (j, 1)), -1), Affine(((i, 9), (j, 10)), -9)
    facts = Facts({i: 95, j: 15}, {i: 1, j: 1}, (Predicate(both, 0, 11),))
    bounded = facts.also((Predicate(Affine(((j, 1),)), 0, 9),))
    assert bounded.within(place, 99) and not bounded.within(place, 98)
    assert not facts.within(place, 99)


def test_predicates_that_exclude_each_other_leave_nothing_to_run() -> None:
    """Loops over 52 elements, the last of which would be 51, of an axis of 40."""
    data = placeholder((10,), name="x")
    dag = ComputeDAG([compute((40,), lambda i: select(equal(i, 51), data[i], 1.0), name="y")])
    nest = lower(Sketch(dag, (Split(StageId(0), 0, (13,)),), SMALL), {})
    verify(nest)
    assert (run_nest(nest, {"x": np.zeros(10, np.float32)})["y"] == 1).all()
    place = Affine(((LoopVar("i"), 13), (LoopVar("j"), 1)))
    reaches = {var: 12 for var, _ in place.terms}
    facts = Facts(reaches, dict.fromkeys(reaches, 1), (Predicate(place, 0, 40),))
    later = place + Affine((), 1)
    assert not facts.also((Predicate(later, 40, 50),)).impossible
    assert facts.also((Predicate(later, 41, 50),)).impossible


def test_what_is_said_to_be_within_is_within(rng: np.random.Generator) -> None:
    """All points of random loops under random predicates."""
    said = 0
    for _ in range(300):
        variables = [LoopVar(name) for name in "abc"]
        reaches = {v: int(rng.integers(0, 6)) for v in variables}
        forms = [
            Affine(
                tuple((v, int(c)) for v, c in zip(variables, row[:3], strict=True) if c),
                int(row[3]),
            )
            for row in rng.integers(-2, 4, (3, 4))
        ]
        predicates = tuple(Predicate(form, 0, int(rng.integers(1, 9))) for form in forms[:2])
        facts = Facts(reaches, dict.fromkeys(variables, 1), predicates)
        extent = int(rng.integers(1, 30))
        if not facts.within(forms[2], extent):
            continue
        said += 1
        for values in product(*(range(reaches[v] + 1) for v in variables)):
            where = dict(zip(variables, values, strict=True))
            first, second, place = (
                form.const + sum(c * where[v] for v, c in form.terms) for form in forms
            )
            if all(0 <= x < p.high for x, p in zip((first, second), predicates, strict=True)):
                assert 0 <= place < extent, (forms, predicates, extent, values)
    assert said > 30


def test_a_condition_that_no_number_meets_excludes_what_it_guards(
    rng: np.random.Generator,
) -> None:
    """As padding of a reduced place: 0 % 4 - 2 >= 0."""
    data = placeholder((5, 20), name="x")

    def element(i: Axis, j: Axis) -> Expr:
        place = Const(0, "int64") % 4 - 2
        return select(place >= 0, data[i, place], 1.0)

    dag = ComputeDAG([compute((5, 20), element, name="y")])
    for sketch in generate(dag, SMALL):
        verify(lower(sketch, sample(sketch, 1, rng).row(0)))


@pytest.mark.parametrize("target", [SMALL, cuda_target("sm_90")], ids=["cpu", "gpu"])
def test_a_read_that_its_guard_always_excludes_needs_nothing(
    target: Target, rng: np.random.Generator
) -> None:
    """The window lies in the padding alone: for its range of indices nothing can be computed."""
    data = placeholder((5, 20), name="x")
    before = compute((5, 20), lambda i, j: maximum(data[i, j], 0.0), name="before")

    def element(i: Axis, j: Axis) -> Expr:
        place = minimum(i, 2) - 6
        return select(place >= 0, before[place, j], 1.0)

    dag = ComputeDAG([before, compute((9, 20), element, name="y")])
    for sketch in generate(dag, target):
        verify(lower(sketch, sample(sketch, 1, rng).row(0)))
