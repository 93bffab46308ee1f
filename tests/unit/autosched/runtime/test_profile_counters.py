"""Hardware counters: which are opened, what becomes of readings, and that all threads count."""

from __future__ import annotations

import errno
import json
import os
import struct
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.runtime.counters.counts import StepCounts, instructions_per_cycle, step_counts
from autosched.runtime.counters.events import CYCLES, INSTRUCTIONS, Event
from autosched.runtime.counters.measure import count_steps
from autosched.runtime.counters.perf import counting, open_event
from autosched.runtime.counters.reader import Reader
from autosched.runtime.execution import Execution
from autosched.runtime.executor import _Kernels
from autosched.runtime.peaks import Peaks
from autosched.runtime.profiler import make_profile
from autosched.runtime.program import ExecutionPlan, Step, StepInfo
from codegen.team import Team
from sketch.target.target import Target

# The kernel's own clock of a thread: there on every machine, also on virtual ones without counters.
TASK_CLOCK = Event("task clock", 1, 1)


def refuse(error: int) -> Any:
    return lambda event, thread: -error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.ENOENT, "has no such counters"),
        (errno.EACCES, "not permitted: perf_event_paranoid is"),
        (errno.ENOSYS, "does not offer perf_event_open"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_one_line_says_why_there_is_nothing(error: int, reason: str) -> None:
    counts = count_steps(lambda _: pytest.fail("not run"), Target("cpu", "generic", threads=1), [0],
                         1, opener=refuse(error))  # fmt: skip
    assert counts.events == () and counts.steps == ()
    assert counts.note.startswith("no hardware counters here: ") and reason in counts.note
    assert "\n" not in counts.note


def test_events_that_one_thread_lacks_are_left_out_and_closed() -> None:
    opened: list[int] = []

    def opener(event: Event, thread: int) -> int:
        if event is INSTRUCTIONS and thread == 8:
            return -errno.ENOENT
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return opened[-1]

    with counting([CYCLES, INSTRUCTIONS], [7, 8], opener) as counters:
        assert counters.events == (CYCLES,) and counters.threads == 2
        assert counters.files == tuple(opened[:2])
        assert counters.note.startswith("not counted here: instructions (")
    for file in opened:
        with pytest.raises(OSError):
            os.fstat(file)


def test_the_attribute_asks_for_user_mode_and_children() -> None:
    fields = struct.unpack("<IIQQQQQIIQ", INSTRUCTIONS.attribute())
    assert fields[:3] == (0, 64, 1)
    assert fields[5] == 3  # both times
    assert fields[6] == 0b1100010  # exclude hypervisor, exclude kernel, inherit


def test_counts_are_scaled_summed_over_threads_and_per_run() -> None:
    #                          thread 0        thread 1 (counted half of its time)
    cycles = [[400, 100, 100], [100, 100, 50]]
    instructions = [[1200, 100, 100], [0, 0, 0]]  # thread 1 slept
    never = [[5, 10, 10], [0, 10, 0]]
    differences = np.array([[cycles, instructions], [never, instructions]], np.int64)
    counts = step_counts([CYCLES, INSTRUCTIONS], differences, runs=2, note="n")
    assert counts.steps[0] == {"cycles": 300.0, "instructions": 600.0}
    assert counts.steps[1] == {"instructions": 600.0}  # cycles were never really counted
    assert counts.total == {"instructions": 1200.0}
    assert instructions_per_cycle(counts.steps[0]) == 2.0
    assert instructions_per_cycle(counts.steps[1]) is None


def make_profile_of(
    counts: StepCounts | None, seconds: Any = (4e-6,), times: Any = ((1e-6, 2e-6),)
) -> Any:
    """Of as many steps as ``times`` has columns."""
    steps = tuple(Step("k", (), StepInfo(name, flops=1e3)) for name in "abcd"[: len(times[0])])
    program = ExecutionPlan("net", Target("cpu", "generic", threads=3), (), (), steps, 0, 0)
    return make_profile(program, np.array(seconds), np.array(times), Peaks(1e9), counts)


def test_shares_of_the_peak_are_of_the_unit_of_each_step() -> None:
    """And of both together, how long the operations take at best."""
    infos = StepInfo("a", flops=1e3), StepInfo("b", flops=4e3, unit="u")
    steps = tuple(Step("k", (), info) for info in infos)
    program = ExecutionPlan("net", Target("cpu", "generic"), (), (), steps, 0, 0)
    peaks = Peaks(1e9, {"u": 8e9})
    profile = make_profile(program, np.array([4e-6]), np.array([[2e-6, 1e-6]]), peaks)
    assert [row.peak_percent for row in profile.rows] == pytest.approx([50, 50])
    assert profile.total.peak_percent == pytest.approx(37.5)


def test_the_peak_of_a_variant_is_shared_by_its_own_operations() -> None:
    info = StepInfo("a", flops=4e3, algorithm="winograd-4", computed=1e3)
    program = ExecutionPlan("net", Target("cpu", "generic"), (), (), (Step("k", (), info),), 0, 0)
    profile = make_profile(program, np.array([2e-6]), np.array([[2e-6]]), Peaks(1e9))
    assert profile.rows[0].peak_percent == profile.total.peak_percent == pytest.approx(50)
    assert profile.rows[0].gflops == pytest.approx(2)


def test_the_total_is_all_of_it() -> None:
    for us in range(1, 100):
        steps = np.array([[us / 2e6, us / 2e6]])
        assert make_profile_of(None, steps.sum(axis=1), steps).total.percent == 100


def test_an_interrupted_run_does_not_count() -> None:
    """Times and their deviations are of the same runs, and rows add up."""
    steps = np.tile([1e-6, 2e-6], (8, 1))
    steps[3, 0], steps[5, 1] = 4e-3, 1e-3
    profile = make_profile_of(None, steps.sum(axis=1) + 1e-6, steps)
    assert [row.microseconds for row in profile.rows] == pytest.approx([1, 2])
    assert [row.spread_percent for row in profile.rows] == [0, 0]
    assert profile.rest.microseconds == pytest.approx(1)
    assert profile.total.microseconds == pytest.approx(4) and profile.runs == 8
    assert str(profile).startswith("net, medians of 8 runs\n") and profile.interrupted == ""


def test_one_line_says_that_every_run_is_interrupted() -> None:
    steps = np.tile([1e-6] * 4, (4, 1)) + 1e-3 * np.eye(4)
    profile = make_profile_of(None, steps.sum(axis=1), steps)
    assert profile.total.microseconds == pytest.approx(4)
    assert str(profile).splitlines()[-1].startswith("whole runs took 1004.0 us (median): something")
    assert profile.to_json()["whole_us"] == pytest.approx(1004)


def test_the_profile_shows_them(tmp_path: Path) -> None:
    values = ({"cycles": 2000.0, "instructions": 3000.0}, {"instructions": 500.0})
    profile = make_profile_of(StepCounts(("cycles", "instructions"), values, "not counted here: x"))
    lines = str(profile).splitlines()
    assert lines[1].split()[-6:] == ["k", "cycles", "k", "instructions", "per", "cycle"]
    assert lines[3].split()[-3:] == ["2.0", "3.0", "1.50"]
    assert lines[-1] == "not counted here: x"
    data = json.loads(json.dumps(profile.to_json()))
    assert data["rows"][0]["cycles"] == 2000 and data["rows"][0]["instructions per cycle"] == 1.5
    assert "cycles" not in data["rows"][1] and data["total"]["instructions"] == 3500
    assert data["events"] == ["cycles", "instructions"] and data["threads"] == 3
    profile.to_csv(tmp_path / "p.csv")
    table = (tmp_path / "p.csv").read_text().splitlines()
    assert table[0].endswith(
        "schedule,spread_percent,algorithm,cycles,instructions,instructions per cycle"
    )
    assert len(table) == 5


def test_without_counters_nothing_changes() -> None:
    profile = make_profile_of(None)
    assert str(profile).splitlines()[1].split()[-1] == "schedule"
    assert profile.events == () and profile.note == ""


def test_the_threads_of_a_call_are_known_one_by_one() -> None:
    module: Any = small_module(3)
    team = Team(3)
    first = Execution(module._loaded._idle[0], team).thread_ids()
    assert len(set(first)) == 3 and first[0] == threading.get_native_id()
    assert Execution(module._loaded._idle[0], team).thread_ids() == first  # the same workers again
    assert Execution(module._loaded._idle[0], None).thread_ids() == first[:1]


class FakeReader:
    """Two files whose values grow by 1, 2, 4, ... from reading to reading."""

    def __init__(self) -> None:
        self.value, self.plans = 1, list[tuple[int, int]]()

    def read(self) -> np.ndarray[Any, Any]:
        self.value *= 2
        return np.full((2, 3), self.value, np.int64)

    def run_plan(self, plan: int, count: int, team: int, flush: int) -> np.ndarray[Any, Any]:
        self.plans.append((plan, count))
        return np.array([self.read() for _ in range(count + 1)])


def test_differences_of_readings_belong_to_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    module = small_module(1)
    executor, evaluated = module._loaded._idle[0], []
    executor.bind(module.random_inputs())
    on_host: Any = SimpleNamespace(number=2)
    at = executor._plan.address
    executor._segments = (_Kernels(0, 2, at), on_host, _Kernels(2, 1, at + 32))
    executor._plan.steps, executor._host_times = np.array([0, 1, 3]), np.zeros(4, np.int64)
    monkeypatch.setattr(executor, "_evaluate", evaluated.append)
    reader = FakeReader()
    differences = executor.run_counted(reader)
    assert differences.shape == (4, 2, 3)
    assert differences[:, 0, 0].tolist() == [2, 4, 16, 64]  # readings 2 4 8 | 16 32 | 64 128
    assert evaluated == [on_host]
    assert [count for _, count in reader.plans] == [2, 1]
    assert reader.plans[1][0] - reader.plans[0][0] == 32  # two rows of the plan


def small_module(threads: int) -> Any:
    a = asd.placeholder((256, 64), name="A")
    b = asd.placeholder((64, 256), name="B")
    k = asd.reduce_axis(64)
    c = asd.compute((256, 256), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    return asd.Task(asd.ComputeDAG([c]), target=asd.Target("cpu", threads=threads)).module()


def can_open(event: Event) -> bool:
    file = open_event(event, 0)
    if file >= 0:
        os.close(file)
    return file >= 0


@pytest.mark.skipif(not can_open(TASK_CLOCK), reason="the kernel forbids perf_event_open")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_clock_of_every_thread_runs(threads: int) -> None:
    module = small_module(threads)
    arrays = module.random_inputs()
    module.run(arrays)  # the workers exist before the counters

    with module._loaded.call() as call:

        def once(reader: Reader) -> Any:
            call.executor.bind(arrays)
            return call.executor.run_counted(reader, call.team.address if call.team else 0)

        counts = count_steps(once, module.target, call.thread_ids(), 200, [TASK_CLOCK])
    assert counts.events == ("task clock",) and counts.note == ""
    assert len(counts.steps) == 1 and counts.steps[0]["task clock"] > 0


@pytest.mark.skipif(not can_open(TASK_CLOCK), reason="the kernel forbids perf_event_open")
def test_workers_that_existed_before_are_counted() -> None:
    module = small_module(2)
    arrays = module.random_inputs()
    call = Execution(module._loaded._idle[0], Team(2))
    call.once(arrays)
    with counting([TASK_CLOCK], call.thread_ids()) as counters:
        while not all(clock > 0 for clock in clocks(counters.files)):
            call.once(arrays)
        assert len(counters.files) == 2


def clocks(files: tuple[int, ...]) -> list[int]:
    return [struct.unpack("<QQQ", os.read(file, 24))[0] for file in files]


@pytest.mark.skipif(not can_open(CYCLES), reason="no hardware counters on this machine")
def test_cycles_and_instructions_of_a_kernel() -> None:
    profile = small_module(1).profile(repeats=5, counters=True)
    assert {"cycles", "instructions"} <= set(profile.events)
    # 256 * 256 * 64 multiply-adds in vectors of at most 16.
    assert profile.rows[0].counts["instructions"] > 256 * 256 * 64 / 16


def test_the_command_line_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autosched.runtime.counters.measure.open_event", refuse(errno.ENOSYS))
    line = ["profile", "mlp", "--threads", "1", "--repeats", "2"]
    assert main([*line, "--counters"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[-1].startswith("no hardware counters here: the kernel or a sandbox")
    assert main([*line, "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (
        data["name"] == "mlp"
        and len(data["rows"]) == 3
        and data["total"]["percent"] == pytest.approx(100)
    )
