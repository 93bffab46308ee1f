"""What a call costs besides its kernels: the caches have lost Python's code when one begins."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import autosched as asd
from autosched.runtime import team_pool
from autosched.runtime.cores import current_core
from autosched.runtime.execution import Execution
from autosched.runtime.memory import address_of
from autosched.runtime.team_pool import TeamPool
from tests.unit.autosched.runtime.test_runtime_module import make_module

# One function more is another microsecond of a network that runs in a millisecond.
MOST_FUNCTIONS = 40

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "dense": np.zeros((3, 4), np.float32),
    "part": np.zeros(64, np.int8)[5:9],
    "scalar": np.array(1.0),
    "empty": np.zeros((0, 4), np.float32),
    "brain float": np.zeros(4, ml_dtypes.bfloat16),
    "text": np.array(["a", "bc"]),
    "objects": np.array(["a", None], object),
    "dates": np.zeros(3, "datetime64[s]"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("writeable", [True, False])
def test_addresses_are_those_of_numpy(name: str, writeable: bool) -> None:
    array = ARRAYS[name].view()
    array.flags.writeable = writeable
    assert address_of(array) == array.ctypes.data


def test_addresses_hold_nothing() -> None:
    array = np.zeros(8)
    before = sys.getrefcount(array)
    address_of(array)
    assert sys.getrefcount(array) == before
    array.resize(4)  # refused while a buffer of it is in use


def test_a_call_executes_few_functions() -> None:
    a = asd.placeholder((64, 64), name="A")
    twice = asd.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
    target = asd.Target("cpu", threads=2)
    module = asd.Task(asd.ComputeDAG([twice]), target=target).module()
    inputs = module.random_inputs()
    for _ in range(3):  # two arrays of results are made, and then used in turns
        results = module.run(inputs)
    called: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        results = module.run(inputs)
    finally:
        sys.setprofile(None)
    assert (results["B"] == 2 * inputs["A"]).all()
    assert "Executor.run" in called and len(called) <= MOST_FUNCTIONS


def test_times_of_steps_are_added_up_after_the_clock_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = make_module()
    executor, events = module._loaded._idle[0], list[str]()  # type: ignore[attr-defined]
    for name in ("run_timed", "step_nanoseconds", "results"):
        real = getattr(executor, name)
        monkeypatch.setattr(
            executor, name, lambda *a, n=name, f=real: (events.append(n), f(*a))[1], raising=True
        )
    _, steps = Execution(executor, None).time_steps(module.random_inputs(), 1)
    assert events[-3:] == ["run_timed", "results", "step_nanoseconds"]
    assert steps.shape == (1, len(module.program.steps)) and (steps > 0).all()


def test_a_caller_on_its_core_is_left_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.sched_getaffinity(0)
    pool = TeamPool(1, (min(cores),))
    os.sched_setaffinity(0, {min(cores)})
    try:
        with monkeypatch.context() as patch, pool.team():
            patch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("it is there"))
        assert os.sched_getaffinity(0) == {min(cores)} and not pool.homes
        os.sched_setaffinity(0, cores)
        monkeypatch.setattr(team_pool, "current_core", lambda: -1)  # moved since
        with pool.team():
            assert os.sched_getaffinity(0) == {min(cores)}
        assert os.sched_getaffinity(0) == cores and not pool.homes
    finally:
        os.sched_setaffinity(0, cores)


def test_a_caller_that_runs_on_its_core_is_not_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.sched_getaffinity(0)
    pool = TeamPool(1, (min(cores),))
    monkeypatch.setattr(team_pool, "current_core", lambda: min(cores))
    with monkeypatch.context() as patch:
        for name in ("sched_getaffinity", "sched_setaffinity"):  # each takes as long as a kernel
            patch.setattr(os, name, lambda *_: pytest.fail("it is there"))
        with pool.team():
            pass
    assert os.sched_getaffinity(0) == cores and not pool.homes


def test_the_current_core_is_one_of_the_process() -> None:
    assert current_core() in os.sched_getaffinity(0)


@pytest.mark.parametrize("place", ["apart", "behind the input", "in the input"])
def test_arrays_that_were_given_are_told_apart_by_their_addresses(place: str) -> None:
    module = make_module()
    (spec,), (output,) = module.inputs, module.outputs
    size = spec.size_bytes // 4
    memory = np.zeros(3 * size, np.float32)
    given = memory[:size].reshape(spec.shape)
    given[...] = module.random_inputs()[spec.name]
    expected = module.run({spec.name: given.copy()})[output.name]
    start = {"apart": 2 * size, "behind the input": size, "in the input": size - 1}[place]
    out = memory[start : start + output.size_bytes // 4].reshape(output.shape)
    bound = module._loaded._idle[0]._outputs.prepare(  # type: ignore[attr-defined]
        [given], {output.name: out}
    )
    assert (bound.arrays[0] is out) == (place != "in the input")
    found = module.run({spec.name: given}, {output.name: out})[output.name]
    assert found is out and (found == expected).all()
