"""What is told of one task: its best schedule and its fastest records, in the program's names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.report.explain import explain
from autosched.search.options import SearchOptions
from autosched.search.recall import usable
from autosched.study import recorded_dataset
from autosched.system.errors import OptionError
from autosched.task import Task
from autosched.tuning.options import QUICK, TuneOptions
from costmodel.adapted import AdaptedModel
from costmodel.attribution import ESTIMATE, GROUP_NAMES
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import DraftModel
from tests.support.log_mutations import sample_task


def test_records_are_told_in_the_names_of_the_program(tmp_path: Path) -> None:
    task, log = sample_task(), tmp_path / "log.jsonl"
    task.tune(trials=6, log=log, options=QUICK, runner=SimulatedRunner())
    records = RecordLog(log).read().records
    assert all(name[0].isdigit() for record in records for name in record.decisions)
    text = explain(task, log, peak_flops=1e9)
    names = list(task.space.sketches[0].labels.values())
    told = text.split("fastest:")[1]
    assert names and all(f"{name}=" in told for name in names)
    best = text.split("schedule: variant ")[1].splitlines()[0].split(", ")[1:]
    assert best and not any(name[0].isdigit() for name in best)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, Path]:
    task, log = sample_task(), tmp_path_factory.mktemp("tuned") / "log.jsonl"
    options = TuneOptions(search=SearchOptions(policy="random"))
    task.tune(trials=24, log=log, options=options, runner=SimulatedRunner(), quiet=True)
    return task, log


def test_reasons_name_the_bound_the_drivers_and_the_runner_up(tuned: tuple[Task, Path]) -> None:
    task, log = tuned
    found = task.reasons(log)
    assert sum(term.share for term in found.terms) == pytest.approx(1.0)
    assert found.bound == max(found.terms, key=lambda term: term.seconds).name
    assert found.programs == 24 and found.drivers and not found.fault
    sizes = [abs(np.log1p(driver.change)) for driver in found.drivers]
    assert sizes == sorted(sizes, reverse=True)
    assert {d.name for d in found.drivers} <= {*GROUP_NAMES.values(), ESTIMATE}
    first, second = list(usable(task, RecordLog(log).read().records))[:2]
    rival = found.runner_up
    assert rival is not None and rival.ratio == second.seconds / first.seconds >= 1.0
    if first.candidate.sketch.key == second.candidate.sketch.key:
        theirs, ours = second.candidate.named, first.candidate.named
        changed = [name for name in ours if ours[name] != theirs[name]]
        assert [line.split(" = ")[0] for line in rival.differences] == changed
    text = explain(task, log, peak_flops=1e9)
    assert str(found) in text and f"bound by {found.bound}: " in text


def test_a_runner_up_with_a_shorter_time_is_not_called_slower(tuned: tuple[Task, Path]) -> None:
    task, log = tuned
    found = task.reasons(log)
    assert found.runner_up is not None
    slower = replace(found, runner_up=replace(found.runner_up, ratio=1.06))
    assert "the runner-up takes 1.06 times as long; it differs in" in str(slower)
    shorter = str(replace(found, runner_up=replace(found.runner_up, ratio=0.998)))
    assert "times as long" not in shorter
    assert "is 0.998 of that of the best, which was faster when the leaders were timed" in shorter


def test_without_a_log_the_draft_alone_says_why() -> None:
    found = sample_task().reasons()
    assert not found.drivers and found.runner_up is None
    assert "no model has learned from this task" in str(found)


def test_a_trained_model_needs_no_log(
    tuned: tuple[Task, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, log = tuned
    prior = GradientBoostedModel(GbdtOptions(trees=4, least_trees=4))
    prior.update(recorded_dataset([task], RecordLog(log).read().records))
    monkeypatch.setattr("autosched.report.reasons.usual_model", lambda _: AdaptedModel(prior))
    found = task.reasons()
    assert found.drivers and found.programs == sum(rows.count for rows in task.space.samples)
    assert found.runner_up is None and "no model" not in str(found)


def test_a_model_that_predicts_nan_is_named(
    tuned: tuple[Task, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Diverged(DraftModel):
        def predict(self, features: Features) -> Any:
            return super().predict(features) * np.nan

    task, log = tuned
    monkeypatch.setattr("autosched.report.reasons.usual_model", lambda _: Diverged())
    found = task.reasons(log)
    assert "predict gave NaN" in found.fault and "Diverged" in str(found)


def test_reasons_are_drawn(tuned: tuple[Task, Path]) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    task, log = tuned
    found = task.reasons(log)
    axes = asd.plots.reasons(found)
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, [100 * driver.change for driver in found.drivers])
    assert axes.get_title().endswith(f"bound by {found.bound}")
    bare = asd.plots.reasons(sample_task().reasons())
    assert len(bare.patches) == 4
    with pytest.raises(OptionError, match="str gives no reasons"):
        asd.plots.reasons("x")  # type: ignore[arg-type]
    pyplot.close("all")
