"""Lines that a block writes are fetched while its products are added: all, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from codegen.build import emit, prepare
from codegen.host import host_target
from codegen.passes.affine import flatten
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.lower.lower import lower
from sketch.nest.loopnest import Claim, Loop, LoopNest, LoopVar, Scope
from sketch.nest.walk import stores, walk
from sketch.operators.conv import conv2d
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from sketch.variants.winograd_blocks import winograd_six
from tests.support.compiled import check_run
from tests.support.workloads import random_inputs

# All that does not fit so small a cache comes from memory.
TINY = replace(host_target(2), l2_bytes=1 << 12)


def program(height: int = 24, width: int = 20, filters: int = 32) -> ComputeDAG:
    image = placeholder((1, height, width, 16), name="x")
    weight = placeholder((3, 3, 16, filters), name="w", constant=True)
    found = winograd_six(ComputeDAG([conv2d(image, weight, 1, 1, name="y")]))
    assert found is not None
    return found


def nests(dag: ComputeDAG, target: Target, count: int = 16) -> list[LoopNest]:
    rng, found = np.random.default_rng(0), []
    for sketch in generate(dag, target):
        rows = sample(sketch, count, rng)
        found += [prepare(lower(sketch, rows.row(n)), target) for n in range(rows.count)]
    return found


@cache
def of_the_program() -> list[LoopNest]:
    return nests(program(), TINY)


def claims(nest: LoopNest) -> list[Claim]:
    found = [node.claim for node in walk(nest.roots) if isinstance(node, Loop)]
    return [claim for claim in found if claim is not None]


def values(loops: tuple[Loop, ...]) -> Iterator[Mapping[LoopVar, int]]:
    """Those of the loops' variables, trip by trip; the others are 0."""
    ranges = [[int(x.stride) * n for n in range(int(x.extent))] for x in loops]
    for point in product(*ranges):
        yield dict(zip((x.var for x in loops), point, strict=True))


def claimed_lines(claim: Claim, line: int) -> set[int]:
    """By all turns together, of the block whose variables are 0."""
    lines = set()
    for trip in product(*(range(count) for count, _ in claim.trips)):
        moved = sum(n * step for n, (_, step) in zip(trip, claim.trips, strict=True))
        lines |= {(claim.start.const + moved + first) // line for first in claim.lines}
    return lines


def written_lines(nest: LoopNest, claim: Claim, line: int) -> set[int]:
    lines = set()
    blocks = {var for var, _ in claim.start.terms}
    for store, loops in stores(nest.roots):
        if store.targets[0] is claim.buffer:
            form, _ = flatten(claim.buffer, store.indices)
            inner = tuple(loop for loop in loops if loop.var not in blocks)
            lines |= {
                (form.const + sum(c * at.get(v, 0) for v, c in form.terms)) // line
                for at in values(inner)
            }
    return lines


def test_a_block_claims_what_it_writes() -> None:
    found = [(nest, claim) for nest in of_the_program() for claim in claims(nest)]
    assert len(found) > 4
    line = TINY.cache_line_bytes // 4
    for nest, claim in found:
        assert claim.buffer.scope is Scope.OUTPUT
        assert claimed_lines(claim, line) == written_lines(nest, claim, line)


def test_each_line_has_a_turn() -> None:
    for nest in of_the_program():
        for claim in claims(nest):
            turns = np.prod([extent for _, extent, _ in claim.turns])
            trips = np.prod([count for count, _ in claim.trips])
            loops = [n for n in walk(nest.roots) if isinstance(n, Loop) and n.claim is claim]
            assert len(loops) == 1 and loops[0].var is claim.turns[-1][0]
            assert turns >= trips or len(loops[0].body) > 1 or loops[0].axis_kind == "spatial"


def test_what_a_cache_holds_is_not_claimed() -> None:
    large = replace(TINY, l2_bytes=1 << 20)
    assert not [claim for nest in nests(program(), large) for claim in claims(nest)]


def test_results_without_sums_before_them_are_not_claimed() -> None:
    image = placeholder((1, 24, 20, 32), name="x")
    sums = compute(image.shape, lambda *i: image[i] + 1.0, name="y")
    assert not [claim for nest in nests(ComputeDAG([sums]), TINY) for claim in claims(nest)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("height", "width", "filters"), [(24, 20, 32), (13, 17, 40), (9, 30, 16)])
def test_the_results_are_the_same(height: int, width: int, filters: int, seed: int) -> None:
    """Fetches beyond the output, as blocks at its end make them, touch nothing."""
    dag, rng = program(height, width, filters), np.random.default_rng(seed)
    check_run(dag, random_inputs(dag, rng), TINY, choice=seed, seed=seed)


def test_lines_are_fetched_for_writing() -> None:
    rng = np.random.default_rng(0)
    texts = []
    for sketch in generate(program(), TINY):
        rows = sample(sketch, 8, rng)
        texts += [str(emit(lower(sketch, rows.row(n)), TINY, "k")) for n in range(rows.count)]
    assert any(
        "call void @llvm.prefetch.p0" in text and "i32 1, i32 3, i32 1" in text for text in texts
    )
