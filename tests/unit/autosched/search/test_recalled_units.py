"""Schedules of another machine whose tensor unit this one lacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.measure.result import Timing
from autosched.records.record import record_of
from autosched.search.recall import usable
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.units import WIDE, int_product, on_units


def test_only_schedules_without_the_unit_are_used_on_a_machine_that_lacks_it() -> None:
    dag = int_product(8, 32, 16)
    units = on_units(dag, WIDE)
    keys = {sketch.key for sketch in units}
    plain = next(sketch for sketch in generate(dag, WIDE) if sketch.key not in keys)
    rng = np.random.default_rng(0)
    records = [
        record_of(
            dag.key, Candidate(sketch, sample(sketch, 1, rng).row(0)), WIDE,
            Timing((seconds,) * 5, "warm"), phase="trial", time=1.0,
        )
        for sketch, seconds in ((units[0], 1e-3), (plain, 2e-3))
    ]  # fmt: skip
    without = replace(WIDE, features=WIDE.features.replace("+avx512vnni", "-avx512vnni"))
    for target, expected in ((WIDE, [1e-3, 2e-3]), (without, [2e-3])):
        assert [found.seconds for found in usable(TaskSpec(dag, target), records)] == expected
