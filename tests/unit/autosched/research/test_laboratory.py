"""Comparisons: what runs, what is kept of it, and that equal runs are equal to the last byte."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.measure.simulated import SimulatedRunner
from autosched.records.corpus import Corpus, Origin
from autosched.records.errors import RecordError
from autosched.records.record import Record
from autosched.research import PARTS, POLICY_NAMES, StudyResult, StudyRun, StudySetting, compare
from autosched.research.policies import named_policy
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.study import corpus_tasks
from autosched.system.errors import OptionError
from autosched.system.user_warnings import AutoschedWarning
from autosched.task import Task
from autosched.tuning.objectives import geometric_mean, weighted_sum
from autosched.tuning.options import TuneOptions
from costmodel.dataset import Dataset
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import CostModel, DraftModel
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag

ROOT = Path(__file__).parents[4]
OPTIONS = TuneOptions(
    trials=12,
    search=SearchOptions(
        population=64, generations=1, sketch_rows=32, gbdt=GbdtOptions(trees=4, least_trees=4)
    ),
)


@functools.cache
def one_task() -> tuple[Task, ...]:
    return (Task(matmul_dag(), SMALL, "matmul"),)


@functools.cache
def measured() -> tuple[Record, ...]:
    options = replace(OPTIONS, trials=40, search=SearchOptions(policy="random"))
    found = one_task()[0].tune(options=options, runner=SimulatedRunner(), quiet=True)
    return tuple(record for record in found.records if record.phase == "trial")


def corpus_of(records: Sequence[Record]) -> Corpus:
    corpus = Corpus()
    corpus.add_task(one_task()[0], [Origin("matmul")])
    corpus.append(records, searched=False)
    return corpus


def small(*policies: Any, **others: Any) -> StudyResult:
    named = policies[0] if isinstance(policies[0], dict) else policies
    return compare(named, tasks=one_task(), **{"seeds": (1,), "options": OPTIONS, **others})


def logs_of(folder: Path) -> dict[str, bytes]:
    small("ansor", "random", logs=folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def digest() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return hashlib.sha256(repr(logs_of(Path(folder))).encode()).hexdigest()


def test_equal_seeds_give_equal_logs(tmp_path: Path) -> None:
    logs = logs_of(tmp_path / "one")
    assert sorted(logs) == ["ansor.gbdt.gradient.1.jsonl", "random.gbdt.gradient.1.jsonl"]
    assert logs == logs_of(tmp_path / "other")
    assert all(text.count(b"\n") >= 12 for text in logs.values())
    with pytest.raises(OptionError, match=r"the log of a run exists.*ansor\.gbdt"):
        logs_of(tmp_path / "one")


def test_settings_of_any_names_have_logs_of_their_own(tmp_path: Path) -> None:
    same = named_policy("random")
    small({"a b": same, "a-b": same, "a/b.c": same}, logs=tmp_path / "logs")
    names = sorted(path.name.split(".")[0] for path in (tmp_path / "logs").iterdir())
    assert names == ["a%20b", "a%2Fb%2Ec", "a-b"]


@pytest.mark.slow
def test_a_fresh_process_writes_the_same_bytes() -> None:
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.unit.autosched.research.test_laboratory import digest\n"
        "print(digest())"
    )
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": other},
    )  # fmt: skip
    assert found.stdout.strip() == digest()


def test_a_frame_has_a_row_for_each_trial() -> None:
    found = small("random", "genetic", seeds=(1, 2))
    frame = found.frame()
    assert len(frame) == 48 and set(frame["policy"]) == {"random", "genetic"}
    mine = frame[(frame["policy"] == "random") & (frame["seed"] == 2)]
    assert list(mine["trial"]) == list(mine["task_trial"]) == list(range(1, 13))
    assert list(mine["best_s"]) == list(np.minimum.accumulate(mine["seconds"]))
    assert frame["speed"].max() == 1.0 and frame["best_s"].min() == found.known_s[0]
    assert found.rows()[0].keys() == set(frame.columns)


def run(policy: str, seed: int, tasks: Sequence[int], seconds: Sequence[float]) -> StudyRun:
    return StudyRun(StudySetting(policy, "m", "s"), seed, np.array(tasks), np.array(seconds))


def by_hand(objective: Any = weighted_sum) -> StudyResult:
    task = one_task()[0]
    runs = (
        run("a", 0, [0, 1, 0], [2.0, 6.0, 1.0]),
        run("a", 1, [0, 1, 1], [2.0, np.inf, 6.0]),
        run("b", 0, [1, 0], [3.0, 1.0]),
    )
    return StudyResult((task, task), runs, objective, (1.0, 3.0), "by hand")


def test_curves_are_means_with_the_interval_of_student() -> None:
    a, b = by_hand().curves()
    np.testing.assert_allclose(a.speed, [0.0, 0.25, (4 / 7 + 0.5) / 2])
    half = 12.71 * abs(4 / 7 - 0.5) / 2
    np.testing.assert_allclose(a.high[2], a.speed[2] + half)
    np.testing.assert_allclose(a.low[2], a.speed[2] - half)
    np.testing.assert_allclose(b.speed, [0.0, 1.0, 1.0])  # it ended early
    assert (b.low == b.speed).all() and (a.seeds, b.seeds) == (2, 1)
    assert (a.label, b.label) == ("a", "b")
    np.testing.assert_allclose(by_hand(geometric_mean).curves()[0].speed[2], (0.5**0.5 + 0.5) / 2)
    assert by_hand().table([2, 3]).splitlines()[3].split() == ["b", "1.000", "1.000"]


def test_the_table_says_what_its_numbers_are() -> None:
    """Before each task of each run has a time there is no speed; what follows ± is of a mean."""
    found = by_hand()
    title, *table = str(found).splitlines()
    assert "mean of 2 seeds ± half of its 95 % confidence interval (Student's t)" in title
    assert title.endswith("; -: in some run a task has no time yet")
    assert any(row.split()[1] == "-" for row in table[2:])
    assert "0.000" not in found.table([1])
    one = replace(found, runs=found.runs[:1])
    assert "±" not in str(one) and "±" not in one.table()


def test_a_task_that_never_ran_has_no_speed() -> None:
    task = one_task()[0]
    runs = (run("a", 0, [0, 1], [2.0, np.inf]),)
    found = StudyResult((task, task), runs, weighted_sum, (2.0, np.inf), "by hand")
    assert found.speeds(runs[0]).tolist() == [0.0, 0.0]


def test_an_objective_may_reach_zero() -> None:
    """The excess over a target, say."""
    found = by_hand(lambda latencies: max(0.0, latencies.networks[0] - 10.0))
    assert [found.speeds(run).tolist() for run in found.runs] == [
        [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0]
    ]  # fmt: skip


def test_runs_without_a_trial_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SimpleNamespace(records=(), warnings=())
    monkeypatch.setattr("autosched.research.laboratory.run_job", lambda job: nothing)
    with pytest.raises(OptionError, match="no run has a trial"):
        small("random")


def test_every_part_is_switched_off_by_an_option_of_its_own() -> None:
    changed = [repr(change(OPTIONS)) for change in PARTS.values()]
    assert len({*changed, repr(OPTIONS), repr(named_policy("ansor")(OPTIONS))}) == len(PARTS) + 2
    assert repr(named_policy("evolutionary")(OPTIONS)) == repr(OPTIONS)


@pytest.mark.parametrize("name", ["without draft model", "without bandit", "without evolution"])
def test_what_is_switched_off_changes_the_trials(name: str) -> None:
    ours, other = small("evolutionary", name).runs
    assert not np.array_equal(ours.seconds, other.seconds)


def test_without_the_draft_nothing_asks_it() -> None:
    options = named_policy("without draft model")(OPTIONS).search
    task = one_task()[0]
    model = GradientBoostedModel(options.gbdt)
    learner = Learner(model, options=options.learner)
    rows = task.space.samples[0]
    assert (learner.scorer(task.key).score(rows) == 1.0).all()
    results = measured()
    assert results and not model.ready
    assert not np.allclose(Learner(model).scorer(task.key).score(rows), 1.0)


def test_policies_without_a_model_run_once() -> None:
    found = small("random", "evolutionary", models=("gbdt", "draft"))
    assert [str(setting) for setting in found.settings] == [
        "random, gbdt, gradient", "evolutionary, gbdt, gradient", "evolutionary, draft, gradient",
    ]  # fmt: skip


def test_records_and_corpora_are_replayed() -> None:
    ours = [small("genetic", measurements=source) for source in (measured(), corpus_of(measured()))]
    best = min(record.result.median for record in measured())
    for found in ours:
        assert found.known_s == (pytest.approx(best),)
        assert {*found.runs[0].seconds} <= {record.result.median for record in measured()}
    assert ours[1].source == "40 programs replayed from a corpus"
    (task,) = corpus_tasks(corpus_of(measured()), 3, programs=40)
    assert task.key == one_task()[0].key
    assert corpus_tasks(corpus_of(measured()), 3, programs=41) == ()


def test_rows_of_a_corpus_that_do_not_replay_are_named() -> None:
    broken = replace(measured()[0], decisions=dict.fromkeys(measured()[0].decisions, -7))
    corpus = corpus_of([*measured()[1:], broken])
    with pytest.warns(AutoschedWarning, match="record of matmul does not replay"):
        found = small("random", measurements=corpus)
    assert found.source.startswith("39 programs")


def test_a_damaged_program_of_a_corpus_is_left_out_by_name() -> None:
    corpus = corpus_of(measured())
    (task,) = corpus.tasks.values()
    corpus.tasks[task.key] = replace(task, program={"stages": 7})
    with pytest.warns(AutoschedWarning, match=f"left out: .*task {task.key}"):
        assert corpus_tasks(corpus, 1, programs=1) == ()


class Diverged(DraftModel):
    def predict(self, features: Features) -> Any:
        return super().predict(features) * np.nan

    def update(self, dataset: Dataset) -> None:
        pass


def diverged(seed: int) -> CostModel:
    return Diverged()


def test_a_model_that_predicts_nan_is_named_once() -> None:
    with pytest.warns(AutoschedWarning) as found:
        small("evolutionary", models={"mine": diverged}, seeds=(1, 2))
    (text,) = [str(item.message) for item in found]
    assert text.startswith("evolutionary, mine, gradient: 2 of 2 runs: predict gave NaN")
    assert "cost model Diverged" in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"policies": ["anser"]}, "policy 'anser' is unknown.*ansor"),
        ({"models": ["xgb"]}, "model 'xgb' is unknown.*gbdt"),
        ({"schedulers": ["fifo"]}, "scheduler 'fifo' is unknown.*round-robin"),
        ({"policies": []}, "no policy to compare"),
        ({"policies": {"mine": lambda options: 7}}, "'mine' made 7 of the options"),
        ({"models": {}}, "no model to compare"),
        ({"objective": lambda found: -1.0 / sum(found.networks)}, "of which there is no speed"),
        ({"tasks": []}, "0 tasks and 3 seeds"),
        ({"seeds": [1, 1]}, "1 task and 2 seeds.*once"),
        ({"options": TuneOptions(budget_s=1.0)}, "a time budget is repeated by no run"),
        ({"measurements": []}, "records without a time of matmul"),
    ],
)
def test_what_cannot_be_compared_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        compare(**{"tasks": one_task(), **change})


def test_names_are_all_known() -> None:
    assert len(POLICY_NAMES) == 5 + len(PARTS)
    for name in POLICY_NAMES:
        assert isinstance(named_policy(name)(OPTIONS), TuneOptions)


def test_curves_are_drawn_with_their_bands() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = asd.plots.trial_curves(by_hand())
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert len(axes.collections) == 1 and axes.get_title() == "by hand"
    with pytest.raises(OptionError, match="str is no comparison"):
        asd.plots.trial_curves("x")  # type: ignore[arg-type]
    pyplot.close("all")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"models": {"mine": lambda seed: None}}, r"model 'mine' is None"),
        ({"models": {"mine": lambda seed: object()}}, r"cost_model is"),
        ({"models": {"mine": 3}}, r"'mine' is 3 .*give a function"),
        ({"policies": {"mine": 3}}, r"'mine' is 3 .*give a function"),
        ({"measurements": "corpus.npz"}, r"measurements is 'corpus\.npz'.*load_corpus"),
    ],
)
def test_what_makes_no_run_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        compare(**{"policies": ["evolutionary"], "tasks": one_task(), "options": OPTIONS, **given})


def test_logs_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"the log cannot be .*file/random"):
        compare(["random"], tasks=one_task(), options=OPTIONS, logs=tmp_path / "file")
