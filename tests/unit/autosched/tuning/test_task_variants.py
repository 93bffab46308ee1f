"""Tasks that can be computed by several algorithms."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.search.options import SearchOptions
from autosched.task import Task
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.conv import conv2d
from sketch.oracle.interpret import interpret
from tests.support.fake_runner import FakeRunner, landscape
from tests.support.targets import SMALL

RANDOM = SearchOptions(policy="random")


def program() -> ComputeDAG:
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    return ComputeDAG([conv2d(placeholder((1, 8, 8, 16), name="x"), weight, 1, 1, name="y")])


def test_a_program_gets_its_variants_and_is_computed_as_written_until_one_was_measured() -> None:
    task = Task(program(), SMALL)
    assert [variant.name for variant in task.variants] == [
        "direct",
        "winograd",
        "winograd-4x4",
    ]
    assert (
        {"direct"} < {sketch.variant for sketch in task.sketches} <= {v.name for v in task.variants}
    )
    for quick in (True, False):
        assert task.draft_candidate(quick).sketch.variant == "direct"
    alone = task.reference_only()
    assert alone.key == task.key == Task({"direct": program()}, SMALL).key
    assert {sketch.variant for sketch in alone.sketches} == {"direct"}


@pytest.mark.parametrize("variants", [True, False])
def test_variants_can_be_left_out_of_a_search(variants: bool) -> None:
    options = TuneOptions(trials=64, search=RANDOM, variants=variants)
    found = run_job(TuneJob([Task(program(), SMALL)], runner=FakeRunner(), options=options))
    tried = {record.variant for record in found.records}
    assert {"direct", "winograd"} <= tried if variants else tried == {"direct"}


def test_the_best_variant_of_a_log_runs_with_its_constants_prepared(tmp_path) -> None:
    task = Task(program(), host_target(1))
    log = RecordLog(tmp_path / "log.jsonl")

    def winograd_wins(candidate):
        seconds = landscape(candidate)
        return Timing((seconds * (1e-3 if candidate.sketch.variant == "winograd" else 1.0),))

    options = TuneOptions(trials=64, search=RANDOM)
    run_job(TuneJob([task], runner=FakeRunner(rule=winograd_wins), log=log, options=options))
    assert task.candidate(log.path).sketch.variant == "winograd"
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.standard_normal(t.shape, dtype=np.float32) for t in task.dag.inputs}
    module = task.module({"w": arrays["w"]}, log.path)
    (found,) = module.run({"x": arrays["x"]}).values()
    (expected,) = interpret(task.dag, arrays).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
