"""Shares of predicates and guards, by hand and against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from costmodel.extract.guards import MergedGuard
from costmodel.extract.statement import LoopInfo, StoreSite, statements_of
from costmodel.extract.validity import innermost_clips, share, validity
from sketch.lang.affine import UNBOUNDED
from sketch.lower import lower
from sketch.nest.loopnest import LoopKind, LoopVar
from sketch.population.population import Population


def loop(name: str, extent: int, stride: int = 1, reduce: bool = False) -> LoopInfo:
    reach = float((extent - 1) * stride)
    return LoopInfo(LoopVar(name), float(extent), float(stride), reach, LoopKind.SERIAL, reduce)


def counted(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> float:
    coefficients = dict(guard.terms)
    hits = total = 0
    for trips in itertools.product(*(range(int(p.extent)) for p in loops)):
        value = sum(
            coefficients.get(p.var, 0) * trip * int(p.stride)
            for p, trip in zip(loops, trips, strict=True)
        )
        hits += guard.low <= value < guard.high
        total += 1
    return hits / total


@pytest.mark.parametrize("extent", [1, 7, 37, 48])
def test_tails_are_exact(extent: int) -> None:
    loops = (loop("i0", 4, 12), loop("i1", 3, 4), loop("i2", 4, 1))
    guard = MergedGuard(tuple((p.var, 1) for p in loops), 0, extent)
    assert share(guard, loops) == pytest.approx(counted(guard, loops)) == extent / 48


@pytest.mark.parametrize(("size", "stride"), [(7, 1), (14, 1), (56, 1), (28, 2), (112, 2)])
def test_padding_is_close(size: int, stride: int) -> None:
    out = size // stride
    loops = (loop("h", out), loop("k", 3, reduce=True))
    guard = MergedGuard(((loops[0].var, stride), (loops[1].var, 1)), 1, size + 1)
    assert share(guard, loops) == pytest.approx(counted(guard, loops), abs=0.02)


def test_one_sided_guards_and_no_variables() -> None:
    loops = (loop("i", 10),)
    assert share(MergedGuard(((loops[0].var, 1),), 5, UNBOUNDED), loops) == pytest.approx(0.5)
    assert share(MergedGuard(((loops[0].var, -1),), -UNBOUNDED, -4), loops) == pytest.approx(0.5)
    assert share(MergedGuard((), 0, 1), loops) == 1.0
    assert share(MergedGuard((), 1, 5), loops) == 0.0


def executed(site: StoreSite) -> float:
    """Share of the trips of a site that its clipped loops execute, counted one by one."""
    grid = np.indices(tuple(int(p.extent) for p in site.loops), sparse=True)
    at = {p.var: trip * int(p.stride) for p, trip in zip(site.loops, grid, strict=True)}
    inside = np.ones(tuple(int(p.extent) for p in site.loops), bool)
    for clip in site.clips:
        value = clip.index.const + sum(c * at.get(var, 0) for var, c in clip.index.terms)
        inside &= (clip.low <= value) & (value < clip.high)
    return float(inside.mean())


def test_executed_trips_are_those_that_clips_leave(populations: list[Population]) -> None:
    for population in populations:
        for index in range(population.count):
            nest = lower(population.sketch, population.row(index))
            for statement in statements_of(nest):
                site = statement.main
                trips = math.prod(int(p.extent) for p in site.loops)
                if site.clips and trips < 30_000:
                    checks = validity(site)
                    assert checks.tail_valid <= checks.tail_executed <= 1.0
                    # Axes without a clip may lose whole tiles besides.
                    assert checks.tail_executed <= executed(site) + 1e-9
                    clips = [MergedGuard(c.index.terms, c.low, c.high) for c in site.clips]
                    shares = math.prod(share(c, site.loops) for c in innermost_clips(clips))
                    assert shares == pytest.approx(executed(site), rel=1e-6)


@pytest.mark.parametrize("low", [-3, 0, 1, 4])
def test_guards_from_below_and_above(low: int) -> None:
    loops = (loop("o", 3, 4), loop("i", 4))
    guard = MergedGuard(((loops[0].var, 1), (loops[1].var, 1)), low, 9)
    assert share(guard, loops) == counted(guard, loops)
