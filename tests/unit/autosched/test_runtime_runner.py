import os
import threading

import pytest

from autosched.runtime.errors import AssemblyError
from autosched.runtime.runner import Runner, available_cores, shared_runner


def test_everything_runs_on_one_other_thread() -> None:
    runner = Runner()
    names = {runner.call(threading.get_ident) for _ in range(3)}
    assert len(names) == 1 and threading.get_ident() not in names
    assert runner.call(lambda: runner.call(lambda: 7)) == 7


def test_an_exception_comes_back_to_the_caller() -> None:
    runner = Runner()
    with pytest.raises(ZeroDivisionError):
        runner.call(lambda: 1 // 0)
    assert runner.call(lambda: 1) == 1


def test_pinning_leaves_the_caller_alone() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    runner = Runner()
    runner.pin([core])
    assert runner.call(lambda: os.sched_getaffinity(0)) == {core}
    assert os.sched_getaffinity(0) == before == available_cores()


def test_cores_that_are_not_lent_are_refused() -> None:
    with pytest.raises(AssemblyError, match="cannot pin"):
        Runner().pin([100_000])
    core = min(available_cores())
    with pytest.raises(AssemblyError, match="distinct"):
        Runner().pin([core, core])


def test_there_is_one_shared_runner() -> None:
    assert shared_runner() is shared_runner()
