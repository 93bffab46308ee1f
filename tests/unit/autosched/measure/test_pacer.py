"""Samples at the usual pace of the machine, whatever its speed is at the moment."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from autosched.measure.messages import TimingRequest
from autosched.measure.options import MeasureOptions
from autosched.measure.pacer import PacedRun, TaskPace, at_level
from autosched.measure.result import CacheState, Failure, Timing
from autosched.measure.task_memory import TaskMemory
from autosched.measure.timing_worker import TimingWorker
from autosched.tasks.candidate import Candidate
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.schedule.sketch import Sketch
from tests.support.targets import AVX512

A = placeholder((4,), name="A")
DAG = ComputeDAG([compute((4,), lambda i: A[i] + 1, name="B")])
SKETCH = Sketch(DAG, (), AVX512)
CANDIDATE = Candidate(SKETCH, {})


class Machine:
    """One whose speed changes with its clock."""

    def __init__(self, slowdown: Callable[[float], float]) -> None:
        self.now, self.slowdown = 0.0, slowdown

    def run(self, seconds: float) -> float:
        took = seconds * self.slowdown(self.now)
        self.now += took
        return took


def test_samples_do_not_depend_on_the_speed() -> None:
    machine = Machine(lambda now: 1.2 + 0.2 * math.sin(now))
    paced = PacedRun(lambda runs: runs * machine.run(1e-3), lambda: machine.run(2e-3), 2e-3)
    seconds = [paced(1) for _ in range(5000)]
    assert min(machine.slowdown(t / 10) for t in range(100)) < 1.01
    assert seconds == pytest.approx([1e-3] * 5000, rel=2e-3)
    assert min(paced.paces) < 1.01 and max(paced.paces) > 1.39


def test_a_sample_lies_between_two_runs_of_the_pacer() -> None:
    order: list[str] = []
    pacer_s = iter((1.2, 1.2, 1.4))

    def run(runs: int) -> float:
        order.append("kernel")
        return 6.0

    def run_pacer() -> float:
        order.append("pacer")
        return next(pacer_s)

    paced = PacedRun(run, run_pacer, 1.0)
    assert [paced(1), paced(1)] == [5.0, 5.0] and paced.paces == [1.2, 1.2]
    assert order == ["pacer", "kernel", "pacer", "kernel", "pacer"]


@pytest.mark.parametrize("hit", range(4))
def test_an_interruption_of_the_pacer_makes_no_kernel_faster(hit: int) -> None:
    pacer_s = [1.0] * 4
    pacer_s[hit] = 9.0
    taken = iter(pacer_s)
    paced = PacedRun(lambda runs: 5.0, lambda: next(taken), 1.0)
    assert [paced(1) for _ in range(3)] == [5.0] * 3


def test_between_interruptions_a_kernel_takes_what_it_takes() -> None:
    paced = PacedRun(lambda runs: 5.0, lambda: 4.0, 1.0)
    assert paced(1) == 5.0 and paced.paces == [4.0]
    pace = followed(1.0)
    assert batch(pace, *[4.0] * 9) == 1.0 and pace.pacer is not None
    assert at_level(timing(1.0, 4.0), 0.5).median == 1.0  # type: ignore[union-attr]
    assert TaskPace(pacer=pace.pacer).new_level() == 1.0


def timing(seconds: float, pace: float | None = 1.0, samples: int = 3) -> Timing:
    return Timing((seconds,) * samples, pace=pace)


def followed(*seconds: float) -> TaskPace:
    pace = TaskPace()
    for number, own in enumerate(seconds):
        pace.follow(CANDIDATE, bytes([number]), timing(own, 1.0 if number else None))
    return pace


def test_the_first_success_is_the_pacer_and_one_twice_as_fast_after_it() -> None:
    assert TaskPace().pacer is None
    for seconds, kernel in [((4.0,), 0), ((4.0, 2.1, 9.0), 0), ((4.0, 1.9, 1.5), 1)]:
        pace = followed(*seconds)
        assert pace.pacer is not None and pace.number == kernel + 1
        assert pace.pacer.kernel == bytes([kernel]) and pace.pacer.seconds == seconds[kernel]


def test_what_was_dropped_early_is_no_pacer() -> None:
    pace = TaskPace()
    pace.follow(CANDIDATE, b"", timing(1.0, None, 2))
    assert pace.pacer is None and pace.new_level() == 1.0 and not pace.known
    pace.follow(CANDIDATE, b"", timing(1.0, None))
    pace.follow(CANDIDATE, b"", timing(0.1, 1.0, 2))
    assert pace.pacer is not None and pace.pacer.seconds == 1.0


def batch(pace: TaskPace, *paces: float) -> float:
    """The new level after a batch of candidates that take 1 s at the pacer's pace."""
    for own in paces:
        pace.follow(CANDIDATE, b"", timing(1.0, own))
    return pace.new_level()


@pytest.mark.parametrize("first", [0.5, 0.95, 1.4])
def test_the_first_batch_tells_what_is_usual(first: float) -> None:
    """Its pacer was timed while the machine was quick, or slow."""
    pace = followed(1.0)
    assert batch(pace, *[first] * 9) == first
    assert pace.pacer is not None and pace.pacer.seconds == first
    assert batch(pace, *[1.0] * 9) == 1.0 and pace.pacer.seconds == first


def test_a_pacer_that_was_timed_at_a_quick_moment_corrects_later() -> None:
    """All paces are as of a kernel that has to wait; so many say that it is no wait."""
    pace = followed(1.0)
    assert batch(pace, *[1.8] * 9) == 1.0
    assert batch(pace, *[1.9] * 9) == 1.8 and pace.pacer is not None and pace.pacer.seconds == 1.8
    assert batch(pace, *[1.0] * 60) == 1.0 and pace.pacer.seconds == 1.8
    assert batch(pace, *[2.5] * 60) == 1.0 and pace.pacer.seconds == 1.8


def test_bursts_without_a_pacer_say_nothing_of_it() -> None:
    """The first kernels were too long for one, or were timed again without it."""
    pace = TaskPace()
    for seconds in (6.0, 6.0, 2.0, 2.0):
        pace.follow(CANDIDATE, b"", timing(seconds, None))
    assert pace.pacer is not None and pace.pacer.seconds == 2.0 and list(pace.paces) == [1.0]
    assert batch(pace, *[1.8] * 16) == 1.8 and pace.pacer.seconds == 3.6


@pytest.mark.parametrize("later", [0.8, 1.25])
def test_later_only_a_clear_change_changes_what_is_usual(later: float) -> None:
    pace = followed(1.0)
    assert batch(pace, *[1.0] * 8) == batch(pace, *[1.1] * 60) == batch(pace, *[0.9] * 60) == 1.0
    assert pace.pacer is not None and pace.pacer.seconds == 1.0
    assert batch(pace, *[later] * 150) == later and pace.pacer.seconds == later
    assert batch(pace, *[1.0] * 60) == 1.0 and pace.pacer.seconds == later


def test_a_new_pacer_changes_no_level() -> None:
    pace = followed(1.0)
    batch(pace, *[1.0] * 60)
    pace.follow(CANDIDATE, b"new", timing(0.4, 1.4))
    assert pace.pacer is not None and pace.pacer.kernel == b"new"
    assert pace.new_level() == 1.0 and pace.pacer.seconds == 0.4


def test_a_level_is_of_timings() -> None:
    failed = Failure("run", "SIGSEGV", "")
    assert at_level(failed, 2.0) == failed
    told = at_level(timing(1.0, 1.2), 2.0)
    assert isinstance(told, Timing) and told.median == 2.0 and told.pace == 0.6
    assert at_level(timing(1.0, None), 1.0).pace is None  # type: ignore[union-attr]


class Bench:
    """Kernels are the seconds that they take; see ``Bench`` of the package."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.memories: list[TaskMemory] = []
        self.runs: list[float] = []
        self.loaded: list[float] = []

    def copies(self, dag: ComputeDAG) -> int:
        return 1

    def load(
        self, kernel: float, memory: TaskMemory, sketch: Sketch, values: Mapping[str, int]
    ) -> float:
        self.memories.append(memory)
        self.loaded.append(kernel)
        return kernel

    def run(self, loaded: float, runs: int, state: str) -> float:
        self.runs.append(loaded)
        return self.machine.run(loaded)

    def forget(self) -> None:
        """Nothing is kept."""

    def waiting(self) -> float:
        return 1.25

    def error(self, memory: TaskMemory, loaded: float) -> float:
        return 0.0

    def unload(self, loaded: float) -> None:
        self.loaded.remove(loaded)


def request(seconds: float) -> TimingRequest:
    return TimingRequest(DAG.key, SKETCH.key, {}, pickle.dumps(seconds))


def started(bench: Bench, state: CacheState) -> TimingWorker:
    worker = TimingWorker(MeasureOptions(cache_state=state, samples=3), lambda: bench)
    worker.task(DAG.key, pickle.dumps(DAG), pickle.dumps(None))
    worker.sketch(SKETCH.key, pickle.dumps(SKETCH))
    return worker


@pytest.mark.parametrize("state", ["network_l2_cold", "warm"])
def test_the_child_measures_beside_the_pacer(state: CacheState) -> None:
    bench = Bench(Machine(lambda now: 1.0 if now < 0.02 else 1.4))
    worker = started(bench, state)
    worker.pacer(request(1e-3))
    first = worker.measure(request(2e-3), math.inf, 1e-3)
    bench.machine.now = 1.0
    second = worker.measure(request(2e-3), math.inf, 1e-3)
    for result, pace in ((first, 1.0), (second, 1.4)):
        assert isinstance(result, Timing)
        assert result.seconds == pytest.approx((2e-3,) * 3) and result.pace == pytest.approx(pace)
        assert result.waiting == 1.25
    samples = [2e-3, 1e-3] * 3
    each = 2 if state == "warm" else 1  # once more, since the other kernel was in the caches
    assert bench.runs == 2 * [k for kernel in (1e-3, *samples) for k in [kernel] * each]
    bench.runs.clear()
    worker.load(request(3e-3), 0)
    assert worker.sample(0) / worker.pace(1e-3) == pytest.approx(3e-3)
    assert bench.runs == [3e-3] * 7 + [1e-3] * 6, "in turns the pacer runs by itself"


def test_a_pacer_that_cannot_be_loaded_says_nothing() -> None:
    worker = started(Bench(Machine(lambda now: 1.4)), "warm")
    worker.pacer(replace(request(1e-3), sketch="unknown"))
    assert worker.pace(1e-3) == 1.0


def test_without_its_usual_time_the_pacer_does_not_run() -> None:
    bench = Bench(Machine(lambda now: 1.4))
    worker = started(bench, "warm")
    worker.pacer(request(1e-3))
    result = worker.measure(request(2e-3), math.inf)
    assert isinstance(result, Timing) and result.pace is None
    assert result.median == pytest.approx(2.8e-3) and set(bench.runs) == {2e-3}


def test_a_short_kernel_warms_up_without_the_pacer() -> None:
    bench = Bench(Machine(lambda now: 1.0))
    worker = started(bench, "network_l2_cold")
    worker.pacer(request(1e-3))
    worker.measure(request(1e-6), math.inf, 1e-3)
    assert bench.runs.count(1e-6) > 500 and bench.runs.count(1e-3) == 4


def test_a_long_kernel_runs_once_a_sample() -> None:
    bench = Bench(Machine(lambda now: 1.0))
    worker = started(bench, "warm")
    worker.pacer(request(1e-3))
    worker.measure(request(0.3), 0.01, 1e-3)
    assert bench.runs.count(0.3) == 1


@pytest.mark.parametrize("state", ["warm", "network_l2_cold", "network_dram_cold"])
def test_the_pacer_has_arrays_of_its_own_and_goes_with_its_task(state: CacheState) -> None:
    """Constants that are flushed before each run may be anybody's."""
    bench = Bench(Machine(lambda now: 1.0))
    worker = started(bench, state)
    worker.pacer(request(1e-3))
    worker.measure(request(2e-3), math.inf, 1e-3)
    own, shared = bench.memories
    assert own.outputs is not shared.outputs
    assert (own.packed is shared.packed) == (state == "network_dram_cold")
    assert own.inputs is shared.inputs and bench.loaded == [1e-3]
    worker.pacer(request(3e-3))
    assert bench.loaded == [3e-3]
    worker.task(DAG.key, pickle.dumps(DAG), pickle.dumps(None))
    assert bench.loaded == []
