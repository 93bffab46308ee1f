"""Plots draw what the records say, on the axes that they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.measure.result import Failure, Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.records.title import Title
from autosched.runtime.explanation import ExplainRow, Explanation, Machine
from autosched.system.errors import MissingPackageError, OptionError
from sketch.target.target import Target
from tests.support.lazily import lazily

pyplot = lazily("matplotlib.pyplot")
TARGET = Target("cpu", "generic", threads=2)


@pytest.fixture(autouse=True)
def closed() -> Any:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def trial(task: str, seconds: float, i: int = 1, j: int = 1, title: str = "") -> Record:
    return Record(
        task, TARGET, "direct", (), {"i": i, "j": j, "k": 1}, Timing((seconds,)),
        title=Title(title, 1e6) if title else None,
    )  # fmt: skip


FAILED = replace(trial("b" * 16, 1.0), result=Failure("run", "SIGSEGV", "crash"))
LOG = (
    trial("a" * 16, 4.0, 1, 1, "conv 8x8 -> 8x8"),
    FAILED,
    trial("b" * 16, 8.0),
    trial("a" * 16, 2.0, 2, 1, "conv 8x8 -> 8x8"),
    trial("a" * 16, 3.0, 2, 2, "conv 8x8 -> 8x8"),
    replace(trial("a" * 16, 1e-3, 4, 4), target=replace(TARGET, threads=1)),
    replace(trial("b" * 16, 1e-3), phase="final"),
)


def line(axes: Any, number: int = 0) -> list[float]:
    return [float(value) for value in axes.get_lines()[number].get_ydata()]


def test_history_is_the_best_so_far() -> None:
    axes = asd.plots.history(LOG)
    np.testing.assert_allclose(line(axes, 0), [2, 2, 2, 1, 1])
    np.testing.assert_allclose(line(axes, 1), [np.nan, np.nan, 1, 1, 1])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "conv 8x8 -> 8x8",
        "b" * 8,
    ]


def test_history_of_the_total() -> None:
    total = asd.plots.history(LOG, total=True, weights={"a" * 16: 2})
    np.testing.assert_allclose(line(total), [np.nan, np.nan, 16e3, 12e3, 12e3])


def test_tasks_without_a_success_are_told() -> None:
    nothing = replace(FAILED, task="c" * 16)
    log = (*LOG[:5], nothing, nothing)
    axes = asd.plots.history(log)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["conv 8x8 -> 8x8", "b" * 8, f"{'c' * 8}: no success"]
    np.testing.assert_allclose(line(axes, 0), [2, 2, 2, 1, 1, 1, 1])
    assert np.isnan(line(axes, 2)).all()
    total = asd.plots.history(log, total=True)
    assert total.get_ylabel() == "sum of the tasks' best so far, ms (2 of 3 tasks)"
    np.testing.assert_allclose(line(total)[-1], 10e3)
    shares = asd.plots.allocation(log)
    time, trials = shares.containers
    np.testing.assert_allclose([bar.get_width() for bar in time], [80, 20, 0])
    np.testing.assert_allclose([bar.get_width() for bar in trials], [200 / 7, 300 / 7, 200 / 7])
    assert shares.get_yticklabels()[2].get_text() == f"{'c' * 8}: no success"


def test_allocation_compares_time_and_trials() -> None:
    axes = asd.plots.allocation(LOG)
    time, trials = axes.containers
    np.testing.assert_allclose([bar.get_width() for bar in time], [80, 20])
    np.testing.assert_allclose([bar.get_width() for bar in trials], [40, 60])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b" * 8, "conv 8x8 -> 8x8"]


def test_landscape_has_the_best_of_each_cell() -> None:
    axes = asd.plots.landscape([*LOG[:5], trial("a" * 16, 9.0, 2, 2)])
    (image,) = axes.get_images()
    np.testing.assert_allclose(image.get_array().filled(np.nan), [[4e6, 2e6], [np.nan, 3e6]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("i", "j")
    (cross,) = axes.get_lines()
    assert (cross.get_xdata()[0], cross.get_ydata()[0]) == (1, 0)
    swapped = asd.plots.landscape(LOG, task="aaa", y="i")
    assert (swapped.get_xlabel(), swapped.get_ylabel()) == ("j", "i")


def test_importance_finds_the_decision_that_matters() -> None:
    rng = np.random.default_rng(0)
    rows = [(int(i), int(j)) for i, j in 2 ** rng.integers(0, 6, (60, 2))]
    records = [trial("t", float(i), i, j) for i, j in rows]
    axes = asd.plots.importance(records)
    shares = dict(
        zip(
            [text.get_text() for text in axes.get_yticklabels()],
            [bar.get_width() for bar in axes.patches],
            strict=True,
        )
    )
    assert shares["i"] > 95 and shares["k"] == 0 and sum(shares.values()) == pytest.approx(100)
    with pytest.raises(OptionError, match="2 trials of a sketch are too few"):
        asd.plots.importance(records[:2])


def test_runs_are_compared_with_the_best_of_all() -> None:
    fast, slow = [trial("t", 2.0), trial("t", 1.0)], [trial("t", 4.0)]
    axes = asd.plots.compare({"fast": fast, "slow": [slow, fast]})
    np.testing.assert_allclose(line(axes, 0), [0.5, 1.0])
    np.testing.assert_allclose(line(axes, 1), [0.375, 0.625])  # the median of two
    assert len(axes.collections) == 1  # quartiles of the repeated one
    for runs in ({}, {"one": fast, "other": [trial("u", 1.0)]}):
        with pytest.raises(OptionError, match="the same tasks"):
            asd.plots.compare(runs)


def test_weights_of_a_result_hold_for_logs_of_the_same_tasks(tmp_path: Path) -> None:
    log, net = tmp_path / "log.jsonl", asd.zoo.build("mlp", image=4)
    result = asd.tune(net, trials=8, log=log, runner=SimulatedRunner(), threads=1, quiet=True)
    axes = asd.plots.compare({"log": log, "result": result})
    np.testing.assert_allclose(line(axes, 0), line(axes, 1))


def explanation(*rows: ExplainRow) -> Explanation:
    return Explanation("net", rows, Machine(1e11, 1e10, 1 << 20, 2))


def test_roofline_places_operators_under_the_roofs() -> None:
    conv = ExplainRow(
        "c", "conv", "", 10.0, 8.0, 2.0, 50.0, 100.0, 80.0, "compute", 50.0, 2.0, "t", "record"
    )
    host = replace(conv, op="TopK", gflops=0.0)
    axes = asd.plots.roofline(explanation(conv, host))
    (points,) = axes.collections
    np.testing.assert_allclose(points.get_offsets(), [[25.0, 50.0]])
    roof = dict(zip(axes.get_lines()[0].get_xdata(), line(axes), strict=True))
    assert max(roof.values()) == pytest.approx(100.0)
    assert min(roof.values()) == pytest.approx(10 * min(roof))
    with pytest.raises(OptionError, match="no operator has operations"):
        asd.plots.roofline(explanation(host))
    with pytest.raises(OptionError, match="str is no explanation"):
        asd.plots.roofline("mlp")  # type: ignore[arg-type]


PLOTS: tuple[Callable[..., Any], ...] = (
    asd.plots.history,
    asd.plots.allocation,
    asd.plots.landscape,
)


@pytest.mark.parametrize("plot", PLOTS)
def test_data_may_be_a_log_in_any_form(plot: Callable[..., Any], tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(LOG[:5])
    figure, axes = pyplot.subplots()
    for data in (log.path, str(log.path), log, log.read(), log.read().records):
        assert plot(data, ax=axes) is axes
    assert axes.figure is figure
    for nothing in ([], [FAILED]):
        with pytest.raises(OptionError, match="nothing to plot"):
            plot(nothing)
    for absent in (tmp_path / "absent.jsonl", RecordLog(tmp_path / "absent.jsonl")):
        with pytest.raises(OptionError, match=r"the log does not exist.*absent\.jsonl"):
            plot(absent)
    with pytest.raises(OptionError, match="int holds no trials"):
        plot(7)


def test_tasks_and_decisions_that_are_not_there() -> None:
    with pytest.raises(OptionError, match=f"no task 'x'.*{'a' * 16}"):
        asd.plots.landscape(LOG, task="x")
    with pytest.raises(OptionError, match=r"no decision 'x'.*known: i, j, k"):
        asd.plots.landscape(LOG, x="x")


def test_without_matplotlib_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.system.optional_packages.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r'plots.*pip install "autosched\[plots\]"'):
        asd.plots.history(LOG)
