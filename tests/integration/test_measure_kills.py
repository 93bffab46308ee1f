"""Every process of the runner may be killed from outside, at any moment: the session goes on."""

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from autosched.measure import zygote as zygote_module
from autosched.measure.errors import MeasureError
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Failure, Timing
from autosched.measure.runner import LocalRunner
from tests.support.faulty_task import TARGET, TASK, candidate, faults

OPTIONS = MeasureOptions(check="all", builders=2, samples=3, min_sample_s=1e-6)


def candidates(count, fault=faults.RIGHT):
    return [candidate(fault)] * count


def kill_the_next_zygotes(monkeypatch, delays_s):
    """The zygotes that are started next are killed, each so many seconds after it was started."""
    spawn, waiting = zygote_module.Zygote._spawn, list(delays_s)

    def spawn_and_kill(self, *arguments):
        process = spawn(self, *arguments)
        if waiting:
            threading.Timer(waiting.pop(0), os.kill, (process.pid, signal.SIGKILL)).start()
        return process

    monkeypatch.setattr(zygote_module.Zygote, "_spawn", spawn_and_kill)
    return waiting


def test_the_clean_process_starts_with_the_block_and_serves_its_first_request():
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        process = runner._zygote._process
        assert process is not None
        (result,) = runner.measure(TASK, candidates(1))
        assert runner._zygote._process is process
    assert isinstance(result, Timing), result


def test_a_block_that_measures_nothing_leaves_no_process():
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        process = runner._zygote._process
    assert process.returncode is not None


def test_a_process_that_cannot_be_made_is_an_error_of_the_first_request(monkeypatch):
    monkeypatch.setattr(zygote_module.sys, "executable", "/nowhere")
    monkeypatch.setattr(zygote_module, "_PAUSE_S", 0.0)
    with (
        LocalRunner(TARGET, OPTIONS, faults.build) as runner,
        pytest.raises(MeasureError, match=r"could not start: .*/nowhere"),
    ):
        runner.measure(TASK, candidates(1))


def test_a_zygote_that_is_killed_while_it_starts_is_started_again(monkeypatch):
    waiting = kill_the_next_zygotes(monkeypatch, (0.0, 0.05, 0.1))
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        (result,) = runner.measure(TASK, candidates(1))
    assert isinstance(result, Timing), result
    assert not waiting


def test_one_that_is_killed_for_ever_is_one_error_that_names_the_signal(monkeypatch):
    kill_the_next_zygotes(monkeypatch, [0.0] * 100)
    monkeypatch.setattr(zygote_module, "_PAUSE_S", 0.0)
    with (
        LocalRunner(TARGET, OPTIONS, faults.build) as runner,
        pytest.raises(MeasureError, match="could not start: SIGKILL, again and again"),
    ):
        runner.measure(TASK, candidates(1))


def test_one_that_ends_by_itself_is_one_error_with_what_it_printed(monkeypatch):
    monkeypatch.setattr(zygote_module, "clean_environment", lambda: {"PYTHONPATH": "/nowhere"})
    monkeypatch.setattr(zygote_module.sys, "executable", "/bin/ls")
    with (
        LocalRunner(TARGET, OPTIONS, faults.build) as runner,
        pytest.raises(MeasureError, match=r"could not start: exit status \d+ \| .*ls: "),
    ):
        runner.measure(TASK, candidates(1))


def test_a_builder_or_timer_that_is_killed_at_its_start_does_not_condemn_the_candidate(monkeypatch):
    fork, killed = zygote_module.Zygote.fork, []

    def fork_and_kill(self, role, setup):
        pid, channel = fork(self, role, setup)
        if role not in killed:
            killed.append(role)
            os.kill(pid, signal.SIGKILL)
        return pid, channel

    monkeypatch.setattr(zygote_module.Zygote, "fork", fork_and_kill)
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        results = runner.measure(TASK, candidates(3))
    assert [type(result) for result in results] == [Timing] * 3, results
    assert sorted(killed) == ["build", "time-cpu"]


def test_a_lost_oracle_is_asked_again():
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        state = runner._state(TASK)
        runner._ask_reference(state)
        state.reference.result()
        state.reference = type(state.reference)()
        state.reference.set_result(Failure("verify", "SIGKILL", "the oracle died: "))
        (result,) = runner.measure(TASK, candidates(1))
    assert isinstance(result, Timing) and result.error is not None


def processes_of(runner):
    zygote = runner._zygote._process
    if zygote is None:
        return []
    try:
        children = Path(f"/proc/{zygote.pid}/task/{zygote.pid}/children").read_text().split()
    except OSError:
        return []
    return [zygote.pid, *map(int, children)]


def hunt(runner, stop, rng, spacing_s):
    """Kill any process; no two zygotes in a row before they have a child.

    On a slow machine none would ever be ready.
    """
    killed_without_child = False
    while not stop.wait(rng.uniform(*spacing_s)):
        pids = processes_of(runner)
        if not pids or (len(pids) == 1 and killed_without_child):
            continue
        killed_without_child = len(pids) == 1
        with suppress(ProcessLookupError):
            os.kill(rng.choice(pids), signal.SIGKILL)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_kills_at_random_moments_end_nothing(seed):
    rng, stop = random.Random(seed), threading.Event()
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        hunter = threading.Thread(target=hunt, args=(runner, stop, rng, (0.0, 0.8)))
        hunter.start()
        try:
            for _ in range(4 if seed == 0 else 40):
                results = runner.measure(TASK, candidates(4))
                again = runner.remeasure(TASK, candidates(2), rounds=2)
                for result in (*results, *again):
                    assert isinstance(result, Timing) or result.kind == "SIGKILL", result
        finally:
            stop.set()
            hunter.join()
        assert isinstance(runner.measure(TASK, candidates(1))[0], Timing)
