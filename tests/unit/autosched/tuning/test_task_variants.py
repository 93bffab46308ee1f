"""Tasks that can be computed by several algorithms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched.measure.result import Timing
from autosched.records.accuracy import ACCURACIES, Accuracy
from autosched.records.log import RecordLog
from autosched.report.explain import explain
from autosched.search.options import SearchOptions
from autosched.system.errors import TaskError
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TaskResult
from autosched.tuning.run import run_job
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.conv import conv2d
from sketch.oracle.interpret import interpret
from sketch.target.target import Target
from sketch.variants.joined_columns import joined_columns
from tests.support.fake_runner import FakeRunner, landscape
from tests.support.targets import SMALL

RANDOM = SearchOptions(policy="random")


def program() -> ComputeDAG:
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    return ComputeDAG([conv2d(placeholder((1, 8, 8, 16), name="x"), weight, 1, 1, name="y")])


def test_a_program_gets_its_variants_and_its_draft_candidate_is_as_written() -> None:
    task = Task(program(), SMALL)
    assert [variant.name for variant in task.variants] == [
        "direct",
        "winograd-4",
        "winograd-6",
    ]
    assert (
        {"direct"} < {sketch.variant for sketch in task.sketches} <= {v.name for v in task.variants}
    )
    for quick in (True, False):
        assert task.draft_candidate(quick).sketch.variant == "direct"
    alone = task.reference_only()
    assert alone.key == task.key == Task({"direct": program()}, SMALL).key
    assert {sketch.variant for sketch in alone.sketches} == {"direct"}


@pytest.mark.parametrize("accuracy", ["as written", "default"])
def test_variants_can_be_left_out_of_a_search(accuracy: Accuracy) -> None:
    options = TuneOptions(trials=64, search=RANDOM, accuracy=accuracy)
    found = run_job(TuneJob([Task(program(), SMALL)], runner=FakeRunner(), options=options))
    tried = {record.variant for record in found.records}
    assert tried == {"direct"} if accuracy == "as written" else tried >= {"direct", "winograd-4"}


def test_what_is_too_inaccurate_is_measured_but_not_used(tmp_path: Path) -> None:
    """Its times stay in the log, for those who allow more."""
    variants = Task(program(), SMALL).variants[:2]
    task, log = Task(variants, SMALL), RecordLog(tmp_path / "log.jsonl")

    def inaccurate(candidate: Candidate) -> Timing:
        seconds = landscape(candidate)
        if candidate.sketch.variant == "direct":
            return Timing((seconds,), error=1e-7)
        return Timing((seconds * 1e-3,), error=1e-7, variant_errors=(1e-7, 5e-5))

    def tuned(accuracy: Accuracy, trials: int) -> TaskResult:
        options = TuneOptions(trials=trials, search=RANDOM, accuracy=accuracy)
        job = TuneJob([task], runner=FakeRunner(rule=inaccurate), log=log, options=options)
        return run_job(job).tasks[0]

    first = tuned("default", 32)
    assert first.best is not None and first.best.sketch.variant == "direct"
    assert first.failures > 0 and "5e-05 of the largest" in str(first.first_failure)
    assert all(isinstance(record.result, Timing) for record in log.read().records)
    chosen = {"as written": "direct", "close": "direct", "default": "direct", "fast": "winograd-4"}
    for accuracy in ACCURACIES:
        assert task.candidate(log.path, accuracy).sketch.variant == chosen[accuracy]
    assert "failed: verify: BeyondBudget" in explain(task, log.path, 1e9)
    fast = explain(task, log.path, 1e9, "fast")
    assert "schedule: variant winograd" in fast
    assert "of the variant 1.0e-07 and 5.0e-05" in fast
    again = tuned("fast", 36)
    assert again.best is not None and again.best.sketch.variant == "winograd-4"
    finals = [r for r in log.read().records if r.phase == "final" and r.variant == "winograd-4"]
    assert isinstance(finals[-1].result, Timing)
    assert finals[-1].result.variant_errors == (1e-7, 5e-5)
    written = tuned("as written", 40)  # of the same log
    assert written.best is not None and written.best.sketch.variant == "direct"


def test_the_best_variant_of_a_log_runs_with_its_constants_prepared(tmp_path) -> None:
    task = Task(program(), host_target(1))
    log = RecordLog(tmp_path / "log.jsonl")

    def winograd_wins(candidate):
        seconds = landscape(candidate)
        return Timing((seconds * (1e-3 if candidate.sketch.variant == "winograd-4" else 1.0),))

    options = TuneOptions(trials=64, search=RANDOM)
    run_job(TuneJob([task], runner=FakeRunner(rule=winograd_wins), log=log, options=options))
    assert task.candidate(log.path).sketch.variant == "winograd-4"
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.standard_normal(t.shape, dtype=np.float32) for t in task.dag.inputs}
    module = task.module({"w": arrays["w"]}, log.path)
    (found,) = module.run({"x": arrays["x"]}).values()
    (expected,) = interpret(task.dag, arrays).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_variants_that_are_no_longer_searched_are_known_by_name() -> None:
    task = Task(program(), SMALL)
    assert task.variant(task.variants[-1].name) is task.variants[-1]
    assert "_unsearched" not in task.__dict__, "they are made for those who ask for one"
    assert task.variant("winograd").dag.key not in {variant.dag.key for variant in task.variants}
    ours = Task({"mine": program()}, SMALL)
    with pytest.raises(TaskError, match="no variant 'winograd'"):
        ours.variant("winograd")


def test_retired_variants_are_known_where_no_other_takes_their_place() -> None:
    image = placeholder((1, 1, 1, 16), name="x")
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    task = Task(ComputeDAG([conv2d(image, weight, padding=1)]), SMALL)
    assert len(task.variants) == 1
    assert task.variant("winograd").dag.key != task.dag.key


def test_machines_with_other_lanes_search_another_program_and_know_all() -> None:
    names = {16: "joined-columns", 8: "joined-columns-8", 4: "joined-columns-4"}
    image = placeholder((1, 6, 12, 5), name="x")
    weight = placeholder((3, 3, 5, 3), name="w", constant=True)
    dag = ComputeDAG([conv2d(image, weight, padding=1)])
    known = {names[lanes]: joined_columns(dag, lanes) for lanes in (16, 8, 4)}
    for lanes, own in {**names, 32: names[16], 2: names[4]}.items():
        task = Task(dag, Target("cpu", "invented", vector_bytes=4 * lanes, registers=16))
        assert {v.name for v in task.variants} & known.keys() == {own}
        for name, other in known.items():
            assert other is not None and task.variant(name).dag.key == other.key
