"""What is searched on CPUs stays what it was: sketches, and the rows that a seed draws."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from sketch.lower import lower
from sketch.population.feasible import feasible, feasible_on_cpu
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.targets import AVX512, SMALL
from tests.support.workloads import WORKLOADS

Golden = Callable[[str, str], None]
_ROWS = 64


def test_golden_sketches_and_rows(golden: Golden) -> None:
    lines: list[str] = []
    for name, make in WORKLOADS.items():
        for target in (SMALL, AVX512):
            for sketch in generate(make(), target)[:6]:
                rows = sample(sketch, _ROWS, np.random.default_rng(7)).values
                digest = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
                lines.append(f"{name} {target.arch} {sketch.key} {digest[:16]}")
    golden("rows", "\n".join(lines))


def test_outlines_say_what_fits_as_whole_nests_do() -> None:
    for make in WORKLOADS.values():
        for sketch in generate(make(), SMALL)[:2]:
            columns = sample(sketch, _ROWS, np.random.default_rng(3)).columns()
            whole = feasible_on_cpu(lower(sketch, columns), sketch.target)
            assert (feasible(sketch, columns) == whole).all()
