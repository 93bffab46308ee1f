"""``asd.tune`` and ``Task.tune`` with the user's own networks, objective, model, rules, runner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.measure.result import MeasureResult
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.report.callbacks import Callback
from autosched.search.models import MODELS, make_model
from autosched.search.options import SearchOptions
from autosched.system.errors import OptionError
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.networks import SessionTuning
from autosched.tuning.objectives import Latencies, LatencyTargets
from autosched.tuning.options import TuneOptions
from costmodel.model import CostModel
from sketch.rules.backend import default_rules
from sketch.rules.generate import generate
from sketch.rules.rule import SketchRule, State, Verdict
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import Annotate, Reorder, Split, Step
from sketch.target.target import Target
from tests.support.lazily import lazily

SEARCH = SearchOptions(population=256, generations=2, sketch_rows=64)
OPTIONS = TuneOptions(trials=24, search=SEARCH)

adapter = lazily("costmodel.sklearn_model")
ensemble = lazily("sklearn.ensemble")


def make_network(name: str, *widths: int) -> Network:
    """Dense layers, each with a relu."""
    rng = np.random.default_rng(7)
    builder = GraphBuilder(name)
    value = builder.input(Value("x", (1, widths[0])))
    for n, (rows, columns) in enumerate(pairwise(widths)):
        weight = rng.standard_normal((rows, columns)).astype("float32")
        value = builder.add(Dense(), [value, builder.constant(f"w{n}", weight)], name=f"fc{n}")
        value = builder.add(UnaryOp("relu"), [value], name=f"relu{n}")
    return Network(name, builder.finish({"y": value}))


def two_networks() -> list[Network]:
    """The layer from 16 to 16 occurs twice in the first and once in the second."""
    return [make_network("first", 8, 16, 16, 16), make_network("second", 16, 16, 24)]


def tune(networks: Sequence[Network], **more: Any) -> SessionTuning:
    arguments: dict[str, Any] = {
        "options": OPTIONS, "quiet": True, "threads": 1, "runner": SimulatedRunner()
    }  # fmt: skip
    return asd.tune(networks, **(arguments | more))


def test_networks_share_equal_tasks(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    session = tune(two_networks(), log=log)
    assert sorted(item.task.weight for item in session.result.tasks) == [1.0, 1.0, 3.0]
    first, second = session.networks
    shared = {item.task.key for item in first.result.tasks} & {
        item.task.key for item in second.result.tasks
    }
    assert len(shared) == 1
    weights = [
        [item.task.weight for item in part.result.tasks if item.task.key in shared]
        for part in (first, second)
    ]
    assert weights == [[2.0], [1.0]]
    assert session.latencies_s == (first.result.total_s, second.result.total_s)
    assert sum(session.latencies_s) == pytest.approx(session.result.total_s)
    for network, part in zip(two_networks(), session.networks, strict=True):
        assert f"{part}".startswith(network.name)
        assert {step.info.schedule for step in part.compile().program.steps} == {"record"}
    assert len(RecordLog(log).read().records) >= session.result.trials == 24


def test_one_network_is_no_session() -> None:
    tuning = asd.tune(
        two_networks()[0], options=OPTIONS, quiet=True, threads=1, runner=SimulatedRunner()
    )
    assert tuning.network.name == "first" and len(tuning.result.tasks) == 2
    with pytest.raises(OptionError, match="no network"):
        tune([])


def test_a_network_at_its_target_gets_only_its_warm_up() -> None:
    networks = [make_network("one", 64, 128), make_network("two", 64, 136)]
    even = tune(networks, options=TuneOptions(trials=96, search=SEARCH))
    objective = LatencyTargets((1.0, 1e-12))
    aimed = tune(networks, objective=objective, options=TuneOptions(trials=96, search=SEARCH))
    assert aimed.result.tasks[0].trials < 0.6 * even.result.tasks[0].trials
    assert aimed.result.trials == 96


def test_an_objective_of_the_user_sees_networks_and_tasks() -> None:
    seen: list[Latencies] = []

    def slowest(found: Latencies) -> float:
        seen.append(found)
        return max(found.networks)

    session = tune(two_networks(), objective=slowest)
    assert session.result.trials <= 24 and seen
    assert {len(found.networks) for found in seen} == {2}
    assert {found.weights for found in seen} == {(1.0, 3.0, 1.0)}
    with pytest.raises(OptionError, match="skip"):
        tune(two_networks(), objective=slowest, skip_tuned=True, log="unused.jsonl")


class Counting(Callback):
    def __init__(self) -> None:
        self.trials = 0

    def on_batch(
        self, task: asd.Task, candidates: Sequence[Candidate], results: Sequence[MeasureResult]
    ) -> None:
        self.trials += len(results)


def test_any_regressor_is_a_cost_model() -> None:
    forest = ensemble.RandomForestRegressor(10, random_state=0)
    model, counting = adapter.SklearnModel(forest), Counting()
    session = tune(two_networks(), cost_model=model, callbacks=[counting])
    assert model.ready
    assert session.result.trials == counting.trials == 24


@pytest.mark.parametrize("name", MODELS)
def test_cost_models_by_name(name: str) -> None:
    model = make_model(name, 1)  # type: ignore[arg-type]
    assert isinstance(model, CostModel)
    assert tune(two_networks()[:1], cost_model=model).result.trials == 24


def test_the_command_line_takes_policy_and_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[TuneJob] = []

    def stop(networks: list[Network], target: Target, job: TuneJob) -> None:
        seen.append(job)
        raise OptionError("stopped here")

    monkeypatch.setattr("autosched.tuning.networks.tune_networks", stop)
    line = "tune mlp --policy genetic --cost-model forest --trials 3"
    assert main(line.split()) == 1
    assert seen[0].cost_model == "forest"
    assert seen[0].options.search.policy == "genetic"


@dataclass(frozen=True)
class Rows:
    """A rule of a user: the first axis in tiles, in parallel; everything else as it is written."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        first, *rest = stage.op.axes
        loops = [stage.loop(first), stage.loop(first, 1)]
        loops += [stage.loop(axis) for axis in (*rest, *stage.op.reduce_axes)]
        steps: list[Step] = [
            Split(stage.id, stage.axis(first), (stage.decision(first, "rows"),)),
            Reorder(stage.id, tuple(loops)),
            Annotate(stage.id, loops[0], "parallel"),
        ]
        return (state.then(*steps).done([stage.id]),)


def matmul() -> asd.ComputeDAG:
    a = asd.placeholder((12, 8), name="A")
    b = asd.placeholder((8, 16), name="B", constant=True)
    k = asd.reduce_axis(8)
    c = asd.compute((12, 16), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    return asd.ComputeDAG([c])


def ruled(sketch: Any) -> bool:
    return any(decision.id.level == "rows" for decision in sketch.decisions)


def test_a_rule_adds_its_sketches_to_the_default_ones() -> None:
    target = asd.Target("cpu", threads=1)
    rules: tuple[SketchRule, ...] = (Rows(), *default_rules(target))
    plain, extended = asd.Task(matmul(), target), asd.Task(matmul(), target, rules=rules)
    assert not any(ruled(sketch) for sketch in plain.sketches)
    found = generate(matmul(), target, rules)
    assert any(ruled(sketch) for sketch in found)
    assert {s.key for s in generate(matmul(), target)} < {s.key for s in found}
    assert extended.key == plain.key
    assert extended.with_weight(2).rules == rules


def test_records_of_a_rule_replay_and_run_without_it(tmp_path: Path) -> None:
    log, target = tmp_path / "log.jsonl", asd.Target("cpu", threads=1)
    task = asd.Task(matmul(), target)
    options = TuneOptions(trials=6, search=SEARCH, rules=(Rows(),))
    result = task.tune(log=log, options=options, runner=SimulatedRunner())
    assert all(ruled(sketch) for sketch in result.tasks[0].task.sketches)
    records = asd.RecordLog(log).read().records
    assert records and all(list(record.decisions) == ["0.0@rows"] for record in records)
    fresh = asd.Task(matmul(), target)
    assert ruled(fresh.candidate(log).sketch)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((12, 8), (8, 16)))
    np.testing.assert_allclose(fresh.module({"B": b}, log).run({"A": a})["C"], a @ b, rtol=1e-5)


def test_rules_reach_the_tasks_of_a_network() -> None:
    session = tune(two_networks(), options=TuneOptions(trials=9, search=SEARCH, rules=(Rows(),)))
    for item in session.result.tasks:
        assert all(ruled(sketch) for sketch in asd.Task.of(item.task).sketches)


def test_models_are_evaluated_on_a_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, log, output = two_networks()[0], tmp_path / "log.jsonl", tmp_path / "result.json"
    options = TuneOptions(trials=60, search=SearchOptions(policy="random"))
    tune([network], log=log, options=options)
    monkeypatch.setattr("autosched.cli.model.open_network", lambda *_: network)
    line = f"costmodel eval first --log {log} --threads 1 --json {output}"
    assert main([*line.split(), "--cost-model", "ridge", "--cost-model", "random"]) == 0
    text = capsys.readouterr().out
    assert "within-task" in text and "by-task" in text and "top-1" in text
    rows = json.loads(output.read_text())["rows"]
    assert [(row["split"], row["cost_model"]) for row in rows] == [
        ("within-task", "ridge"), ("within-task", "random"), ("by-task", "ridge"),
        ("by-task", "random"),
    ]  # fmt: skip
    assert all(0.0 < row[metric] <= 1.0 for row in rows for metric in ("top_1", "pairwise"))
    assert rows[0]["pairwise"] > rows[1]["pairwise"] and rows[0]["programs"] == 60
    assert main(f"costmodel eval first --log {tmp_path}/none.jsonl --threads 1".split()) == 1
