"""Logs that do not exist, or have no record of what is compiled: a warning names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.system.user_warnings import AutoschedWarning
from autosched.tuning.options import QUICK

TASK = asd.workloads.get("GMM").task(1, 16, 16, 16)

USES: tuple[Callable[[Path], object], ...] = (
    lambda log: TASK.module(log=log),
    lambda log: TASK.candidate(log),
    lambda log: TASK.compile(log),
    lambda log: TASK.explain(log),
    lambda log: TASK.reasons(log),
    lambda log: asd.compile(asd.zoo.build("mlp", image=4), log=log, effort="none"),
)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of another task."""
    path = tmp_path_factory.mktemp("log") / "other.jsonl"
    task = asd.workloads.get("GMM").task(1, 8, 8, 8)
    task.tune(trials=2, log=path, options=QUICK, runner=SimulatedRunner(), quiet=True)
    return path


@pytest.mark.parametrize("use", USES)
def test_a_log_that_does_not_exist_is_named(
    use: Callable[[Path], object], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    use(tmp_path / "typo.jsonl")
    told = [w for w in recwarn if "typo.jsonl does not exist" in str(w.message)]
    (warning,) = told
    assert warning.category is AutoschedWarning and warning.filename == __file__


@pytest.mark.parametrize("use", USES)
def test_a_log_of_other_tasks_is_named(use: Callable[[Path], object], other: Path) -> None:
    with pytest.warns(AutoschedWarning, match=r"other.jsonl: none of its records is for \w+ \w+"):
        use(other)


def test_a_table_of_a_missing_log_is_empty_with_one_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    assert len(asd.open_store(tmp_path / "typo.jsonl").read().to_pandas()) == 0
    (warning,) = recwarn
    assert "typo.jsonl does not exist" in str(warning.message)


def test_an_empty_log_is_not_missing(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    (tmp_path / "empty.jsonl").touch()
    RecordLog(tmp_path / "empty.jsonl").read().to_pandas()
    assert not list(recwarn)


def test_a_missing_database_is_missing(tmp_path: Path) -> None:
    with pytest.warns(AutoschedWarning, match=r"typo.db does not exist"):
        TASK.candidate(f"sqlite:///{tmp_path}/typo.db")


def test_warnings_of_two_networks_differ(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    for name in ("mlp", "other"):
        net = replace(asd.zoo.build("mlp", image=4), name=name)
        asd.compile(net, log=tmp_path / "typo.jsonl", effort="none")
    texts = [str(w.message) for w in recwarn]
    assert len(texts) == len(set(texts)) == 4


def test_the_command_line_says_that_records_are_of_other_tasks(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", "mlp", "--log", str(other), "--effort", "none"]) == 0
    assert "none of its records is for network mlp" in capsys.readouterr().err
