"""The error budget: which records of other algorithms are used."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.records.accuracy import Accuracy
from autosched.records.error_budget import BEYOND_BUDGET, held_to
from autosched.records.record import Record, from_json, record_of, to_json
from autosched.task import Task
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.conv import conv2d
from tests.support.targets import SMALL


@cache
def task() -> Task:
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    return Task(
        ComputeDAG([conv2d(placeholder((1, 8, 8, 16), name="x"), weight, 1, 1, name="y")]), SMALL
    )


@cache
def blank() -> Record:
    return record_of(task().key, task().draft_candidate(quick=True), SMALL, Timing((1.0,)))


def record(variant: str, error: float | None = None, errors: tuple[float, ...] = ()) -> Record:
    timing = Timing((1e-3,), error=error, variant_errors=errors)
    return replace(blank(), variant=variant, result=timing)


def allowed(accuracy: Accuracy, *records: Record) -> set[str]:
    """The variants that may be used."""
    held = held_to(records, task(), accuracy)
    return {r.variant for r in held if isinstance(r.result, Timing)}


@pytest.mark.parametrize(
    ("errors", "written", "accuracies"),
    [
        ((3e-7, 2e-7), 1e-7, {"default", "fast"}),
        ((1e-7, 9e-6), 1e-7, {"default", "fast"}),
        ((1e-7, 2e-5), 1e-7, {"fast"}),
        ((2e-5, 1e-7), 1e-7, {"fast"}),
        ((2e-5, 1e-7), 6e-6, {"default", "fast"}),  # within four times what is written
        ((2e-5, 1e-7), None, {"fast"}),
        ((2e-4, 1e-7), 1e-7, set()),
        ((2e-4, 1e-7), 6e-5, {"default", "fast"}),
    ],
)
def test_errors_of_a_variant_are_within_the_budget(
    errors: tuple[float, ...], written: float | None, accuracies: set[Accuracy]
) -> None:
    records = [record("direct", written), record("winograd", 1e-7, errors)]
    for accuracy in ("as written", "default", "fast"):
        expected = {"direct", "winograd"} if accuracy in accuracies else {"direct"}
        assert allowed(accuracy, *records) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "errors", "accuracies"),
    [
        ((5e-7, 1e-5), (1e-6, 3e-5), {"default", "fast"}),
        ((5e-7, 1e-5), (1e-6, 5e-5), {"fast"}),
        ((1e-5, 5e-7), (1e-6, 3e-5), {"fast"}),  # of the other kind of data
        ((5e-7, 4e-5), (1e-6, 1.5e-4), {"default", "fast"}),
    ],
)
def test_on_data_that_the_task_as_it_is_written_does_badly_on_variants_may(
    written: tuple[float, ...], errors: tuple[float, ...], accuracies: set[Accuracy]
) -> None:
    records = [record("direct", 1e-7, written), record("late-factors", 1e-7, errors)]
    for accuracy in ("as written", "default", "fast"):
        expected = {"direct", "late-factors"} if accuracy in accuracies else {"direct"}
        assert allowed(accuracy, *records) == expected  # type: ignore[arg-type]


def test_what_one_record_knows_holds_for_all_of_its_variant() -> None:
    records = [record("winograd"), record("winograd", 1e-7, (2e-5, 0.0)), record("winograd", 1e-7)]
    assert allowed("default", *records) == set()
    failures = [r.result for r in held_to(records, task(), "default")]
    assert all(isinstance(f, Failure) and f.kind == BEYOND_BUDGET for f in failures)
    assert "2e-05 of the largest output, 1e-05 is allowed" in str(failures[0])


def test_older_records_are_judged_by_their_own_errors() -> None:
    assert allowed("default", record("winograd", 8e-7)) == {"winograd"}
    assert allowed("default", record("winograd", 2e-5)) == set()
    assert allowed("fast", record("winograd", 2e-5)) == {"winograd"}


def test_without_any_error_it_counts_what_is_known_of_the_algorithm() -> None:
    assert allowed("default", record("winograd")) == {"winograd"}
    assert allowed("fast", record("guess")) == set()
    assert allowed("fast", record("guess", 1e-7)) == {"guess"}


def test_as_written_leaves_other_variants_out() -> None:
    records = [record("direct", 1e-7), record("winograd", 1e-7, (1e-7, 1e-7))]
    assert [r.variant for r in held_to(records, task(), "as written")] == ["direct"]


def test_failures_and_other_tasks() -> None:
    failed: MeasureResult = Failure("run", "SIGSEGV", "")
    broken = replace(record("winograd"), result=failed)
    assert held_to([broken, replace(broken, task="0" * 16)], task(), "default") == [broken]


def test_errors_of_variants_are_kept_in_logs() -> None:
    wanted = record("winograd", 1e-7, (3e-7, 2e-7))
    found = from_json(json.loads(json.dumps(to_json(wanted))))
    assert found == wanted
    assert "variant_errors" not in to_json(record("direct", 1e-7))["result"]


def test_a_variant_without_any_error_was_measured() -> None:
    assert allowed("default", record("direct"), record("winograd", None, (0.0, 0.0))) == {
        "direct",
        "winograd",
    }
