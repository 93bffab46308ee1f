"""Inputs of a task of its own lie where those of its callers do, those of a network are aligned."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from autosched.measure.execution import array_empty
from autosched.measure.inputs import random_inputs
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Failure
from autosched.measure.timing_worker import TimingWorker
from autosched.system.errors import OptionError
from autosched.task import Task
from autosched.tuning.job import TuneJob
from autosched.tuning.networks import tune_networks
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from autosched.zoo import build
from codegen.kernel import BUFFER_ALIGNMENT
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.matmul import matmul
from sketch.target.target import Target
from tests.support.targets import AVX512

DAG = ComputeDAG(
    [matmul(placeholder((1024, 512), name="A"), placeholder((512, 8), name="B", constant=True))]
)
OPTIONS = MeasureOptions()


def inputs_of(options: MeasureOptions) -> dict[str, np.ndarray]:
    worker = TimingWorker(options, lambda: SimpleNamespace())
    worker.task("t", pickle.dumps(DAG), Failure("check", "none", "none"))
    return worker._tasks["t"].inputs


def is_aligned(array: np.ndarray) -> bool:
    return array.ctypes.data % BUFFER_ALIGNMENT == 0


@pytest.mark.parametrize("places", [None, "arrays", "aligned"])
def test_numbers_are_the_same_wherever_they_are(places: str | None) -> None:
    found = inputs_of(replace(OPTIONS, inputs=places))
    for name, array in random_inputs(DAG, OPTIONS.seed).items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("places", [None, "arrays"])
def test_arrays_are_where_numpy_puts_large_ones(places: str | None) -> None:
    found = inputs_of(replace(OPTIONS, inputs=places))
    assert found["A"].ctypes.data % BUFFER_ALIGNMENT == 16
    assert found["A"].flags.aligned and found["A"].flags.c_contiguous
    assert is_aligned(found["B"])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
def test_arrays_of_all_kinds_can_lie_there(dtype: str) -> None:
    array = array_empty((3, 5), dtype)
    assert array.shape == (3, 5) and str(array.dtype) == dtype and array.flags.aligned


def test_inputs_of_networks_are_aligned() -> None:
    assert all(map(is_aligned, inputs_of(replace(OPTIONS, inputs="aligned")).values()))


def test_other_places_are_refused() -> None:
    with pytest.raises(OptionError, match="places of inputs"):
        MeasureOptions(inputs="pages")


class Started(Exception):
    """A runner would measure now."""


@pytest.mark.parametrize(
    ("given", "alone", "in_network"),
    [(None, None, "aligned"), ("arrays", "arrays", "arrays"), ("aligned", "aligned", "aligned")],
)
def test_who_calls_a_task_says_where_its_inputs_are(
    given: str | None, alone: str | None, in_network: str
) -> None:
    seen: list[str | None] = []

    def start(target: Target, measure: MeasureOptions) -> object:
        seen.append(measure.inputs)
        raise Started

    measure = replace(OPTIONS, inputs=given)
    job = TuneJob((), options=TuneOptions(trials=1), measure=measure, start_runner=start)
    with pytest.raises(Started):
        run_job(replace(job, tasks=(Task(DAG, AVX512, "t"),)))
    with pytest.raises(Started):
        tune_networks([build("mlp", image=4)], AVX512, job)
    assert seen == [alone, in_network]
