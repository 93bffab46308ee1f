"""Candidates that are timed in turns: each round at the pace that its pacer tells."""

from __future__ import annotations

from typing import Any, cast

import pytest

import autosched.measure.timer as timer_module
from autosched.measure.build_pool import SketchCache
from autosched.measure.errors import ChildDiedError
from autosched.measure.options import MeasureOptions
from autosched.measure.pacer import Pacer, TaskPace
from autosched.measure.result import Failure, Timing
from autosched.measure.timer import TaskState, Timer
from autosched.measure.zygote import Zygote
from autosched.tasks.candidate import Candidate
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.schedule.sketch import Sketch
from tests.support.targets import AVX512

A = placeholder((4,), name="A")
DAG = ComputeDAG([compute((4,), lambda i: A[i] + 1, name="B")])
CANDIDATE = Candidate(Sketch(DAG, (), AVX512), {})
SECONDS = {0: 2.0, 1: 3.0}
CRASH = -1.0


class Machine:
    """A timing child whose pacer takes ``paces`` in turn; ``CRASH`` ends its process."""

    calls = 0

    def __init__(self, *paces: float) -> None:
        self.paces, self.pace, self.order = list(paces), 1.0, list[str]()

    def __call__(self, *arguments: Any) -> Machine:
        return self

    def define(self, method: str, key: str, *arguments: Any, **options: Any) -> None:
        """Everything is known."""

    def call(self, method: str, *arguments: Any, timeout_s: float) -> float:
        if method == "load":
            return 0.0
        self.order.append(method)
        if method == "pace":
            pace = self.paces.pop(0)
            if pace == CRASH:
                raise ChildDiedError("SIGSEGV")
            self.pace = pace
            return pace / arguments[0]
        return SECONDS[arguments[0]] * min(self.pace, 1.5)


def compared(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, pacer_s: float | None, rounds: int
) -> tuple[list[Any], TaskPace]:
    monkeypatch.setattr(timer_module, "Child", machine)
    timer = Timer(cast(Zygote, None), AVX512, MeasureOptions(burst_s=100.0), SketchCache())
    pacer = None if pacer_s is None else Pacer(CANDIDATE, b"", pacer_s)
    task = TaskState(DAG.key, b"", pace=TaskPace(pacer=pacer))
    return timer.interleave(task, [CANDIDATE] * 2, [b"", b""], rounds), task.pace


def test_a_round_is_taken_at_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1.0, 1.25, 0.5)
    results, _ = compared(machine, monkeypatch, 1.0, 3)
    assert [result.seconds for result in results] == [(2.0,) * 3, (3.0,) * 3]
    assert machine.order == ["pace", "sample", "sample"] * 3


def test_a_pacer_that_was_interrupted_says_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(1.0, 40.0)
    results, _ = compared(machine, monkeypatch, 1.0, 2)
    assert [result.seconds for result in results] == [(2.0, 3.0), (3.0, 4.5)]


@pytest.mark.parametrize("pacer_s", [None, 20.0])
def test_without_a_short_pacer_times_stay_as_they_are(
    pacer_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    results, _ = compared(machine, monkeypatch, pacer_s, 2)
    assert [result.seconds for result in results] == [(2.0, 2.0), (3.0, 3.0)]
    assert "pace" not in machine.order


@pytest.mark.parametrize("paces", [(CRASH,), (1.0, CRASH)])
def test_a_pacer_that_takes_the_process_down_condemns_no_candidate(
    paces: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    results, pace = compared(Machine(*paces), monkeypatch, 1.0, 2)
    assert not any(isinstance(result, Failure) for result in results)
    assert all(isinstance(result, Timing) and len(result.seconds) == 2 for result in results)
    assert pace.pacer is None, "the next comparison goes on without it"
