"""Schedules that come with a release: where they are used, and where not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import zoo
from autosched.compilation import released as released_module
from autosched.compilation import unmeasured
from autosched.compilation.check import WrongResultError
from autosched.compilation.network import extract_checked, network_contents, network_tasks
from autosched.compilation.recorded import best_known
from autosched.compilation.task import random_constants, task_module
from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.records.record import Record, record_of
from autosched.search import best_schedules as best_schedules_module
from autosched.search.best_schedules import best_schedules
from autosched.search.space import space_of
from autosched.system.user_warnings import AutoschedWarning
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from codegen.host import host_target

TARGET = host_target(1)
NETWORK = zoo.build("mlp", image=4)
TASKS = network_tasks(extract_checked(NETWORK, TARGET), TARGET)


def record(task: TaskSpec, number: int = 1, seconds: float = 1e-3, **changes: Any) -> Record:
    """Of the candidate that the draft likes least but ``number``; none that is compiled unasked."""
    space = space_of(task)
    rows = space.samples[0]
    candidate = Candidate(space.sketches[0], rows.row(rows.count - number))
    target = replace(TARGET, **changes)
    return record_of(task.key, candidate, target, Timing((seconds,), error=1e-7))


def ship(monkeypatch: pytest.MonkeyPatch, *records: Record) -> None:
    monkeypatch.setattr(released_module, "best_schedules", lambda: records)


def schedules(records: Sequence[Record] = (), of_release: bool = True) -> list[str]:
    """Where those of the network's tasks come from."""
    contents = network_contents(NETWORK, TARGET, records, quick=True, of_release=of_release)
    program = contents[0]
    by_task = {step.info.task: step.info.schedule for step in program.kernel_steps}
    return [by_task[task.key] for task in TASKS]


def test_they_come_before_the_draft_model_and_after_the_records_of_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, *others = TASKS
    ship(monkeypatch, record(first), record(second))
    nothing = ["model"] * len(others)
    assert schedules() == ["release", "release", *nothing]
    assert schedules([record(second, 2, seconds=1.0)]) == ["release", "record", *nothing]
    slower = record(second, 2, arch="another", seconds=1e-9)
    assert schedules([slower]) == ["release", "release", *nothing]
    assert schedules(of_release=False) == ["model", "model", *nothing]


def test_those_of_a_machine_that_is_akin_come_after_all_records_of_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, *others = TASKS
    line = TARGET.arch.rstrip("0123456789")
    ship(monkeypatch, *(record(task, arch=f"{line}99") for task in (first, second)))
    nothing = ["model"] * len(others)
    assert schedules() == ["release", "release", *nothing]
    assert schedules([record(second, 2, arch="another")]) == ["release", "record", *nothing]


def test_those_of_this_machine_come_before_those_of_one_that_is_akin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = TASKS[0]
    line = TARGET.arch.rstrip("0123456789")
    own = record(task, 2, seconds=1.0)
    ship(monkeypatch, record(task, arch=f"{line}99"), own)
    found = best_known(task, [], released_module.released([task.key], TARGET), "network")
    assert found is not None and found.recalled is not None
    assert found.recalled.record is own


@pytest.mark.parametrize("changes", [{"threads": 2}, {"arch": "another"}])
def test_those_of_other_machines_are_not_used(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    ship(monkeypatch, *(record(task, **changes) for task in TASKS))
    assert set(schedules()) == {"model"}


def test_they_are_checked_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was right on the machine that it was measured on."""
    ship(monkeypatch, shipped := record(TASKS[0]))
    wrong = shipped.decisions
    check, looked_at = unmeasured.check_kernel, []

    def checking(task: TaskSpec, candidate: Candidate, *rest: Any) -> None:
        if task.key == TASKS[0].key:
            looked_at.append(candidate)
            if list(candidate.values.values()) == list(wrong.values()):
                raise WrongResultError("0 is not 1")
        check(task, candidate, *rest)

    monkeypatch.setattr(unmeasured, "check_kernel", checking)
    with pytest.warns(AutoschedWarning, match=r"the release knows .* not used: 0 is not 1"):
        assert schedules()[0] == "model"
    assert len(looked_at) == 2


def test_a_task_alone_uses_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS[0]
    ship(monkeypatch, record(task))
    constants = random_constants(task)
    module = task_module(task, constants)
    assert [step.info.schedule for step in module.program.steps] == ["release"]
    assert "shipped: as written" in module.summary() and "no record" not in module.summary()
    inputs = module.random_inputs()
    ship(monkeypatch)
    plain = task_module(task, constants)
    assert [step.info.schedule for step in plain.program.steps] == ["model"]
    for name, value in module.run(inputs).items():
        np.testing.assert_allclose(value, plain.run(inputs)[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_damaged_file_of_them_is_told_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: bytes | None
) -> None:
    """``None``: it was cut in the middle."""
    whole = best_schedules_module.SHIPPED.read_bytes()
    broken = tmp_path / "schedules.gz"
    broken.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    monkeypatch.setattr(best_schedules_module, "SHIPPED", broken)
    monkeypatch.setattr(released_module, "best_schedules", best_schedules.__wrapped__)
    if damage == b"":  # nothing at all is an archive of nothing
        assert set(schedules()) == {"model"}
    else:
        with pytest.warns(AutoschedWarning, match=r"schedules\.gz.*install the release again"):
            assert set(schedules()) == {"model"}


def test_each_that_is_shipped_says_what_it_takes_and_that_it_was_right() -> None:
    for shipped in best_schedules():
        assert isinstance(shipped.result, Timing) and shipped.result.error is not None, shipped


def test_a_task_alone_takes_a_log_of_another_machine_before_one_that_is_akin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = TASKS[0]
    constants = random_constants(task)
    line = TARGET.arch.rstrip("0123456789")
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([record(task, 2, arch="another")])
    for shipped, source in ((f"{line}99", "record"), (TARGET.arch, "release")):
        ship(monkeypatch, record(task, arch=shipped))
        with pytest.warns(AutoschedWarning, match="another"):
            module = task_module(task, constants, log.path)
        assert [step.info.schedule for step in module.program.steps] == [source]
