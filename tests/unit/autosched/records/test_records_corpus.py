"""A corpus keeps what was measured, in a small file, and never reads a damaged one as another."""

from __future__ import annotations

import functools
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.records.core_key import core_key
from autosched.records.corpus import Corpus, Origin
from autosched.records.errors import RecordError
from autosched.records.record import record_of
from autosched.search.corpus_data import CorpusReplayer, corpus_dataset, machine_task
from autosched.search.random_search import RandomPolicy
from autosched.search.space import space_of
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from costmodel.extract import features_of
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators import elementwise
from sketch.operators.broadcast import add
from sketch.operators.matmul import matmul
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu, matmul_dag


@functools.cache
def tasks() -> tuple[TaskSpec, ...]:
    return TaskSpec(conv2d_relu(), SMALL, "conv"), TaskSpec(matmul_dag(), SMALL, "matmul")


@functools.cache
def candidates(number: int) -> tuple[Candidate, ...]:
    policy = RandomPolicy(space_of(tasks()[number]), np.random.default_rng(3))
    return tuple(policy.ask(12))


def results() -> list[MeasureResult]:
    times: list[MeasureResult] = [Timing((1e-3 * n, 3e-3 * n)) for n in range(1, 12)]
    return [*times, Failure("timeout", "run", "too long")]


def corpus() -> Corpus:
    made = Corpus()
    for number, task in enumerate(tasks()):
        made.add_task(task, [Origin(f"origin {number}", "net", 2.0)])
        pairs = zip(candidates(number), results(), strict=True)
        records = [record_of(task.key, c, SMALL, result) for c, result in pairs]
        assert made.append(records, bool(number)) == 12
        assert made.append(records, True) == 0  # they are known
    return made


def test_a_file_gives_the_same_programs_again(tmp_path: Path) -> None:
    made, path = corpus(), tmp_path / "corpus.npz"
    made.save(path)
    found = Corpus.load(path)
    assert found.tasks == made.tasks and found.targets == made.targets
    assert found.sketches == made.sketches and len(found) == 24
    for one, other in zip(found.programs, made.programs, strict=True):
        assert one[:3] == other[:3] and one[5:] == other[5:]
        assert np.allclose(one[3:5], other[3:5], rtol=1e-6, equal_nan=True)
    key = tasks()[0].key
    assert [r.candidate_key for r in found.records(key)] == [
        r.candidate_key for r in made.records(key)
    ]
    assert found.count(key, found.targets[0]) == 12


def test_programs_replay_to_their_candidates_and_features(tmp_path: Path) -> None:
    made, replayer = corpus(), CorpusReplayer()
    found = [c for group in made.groups() for c in replayer.candidates(group)]
    expected = [c for number in range(2) for c in candidates(number)]
    assert {c.key for c in found} == {c.key for c in expected}
    assert not replayer.report()
    dataset = corpus_dataset(made)
    assert len(dataset) == 24
    assert dataset.tasks == tuple(machine_task(t, made.targets[0]) for t in made.measured_tasks)
    assert np.isnan(dataset.table().seconds).sum() == 2
    group = next(made.groups())
    rows = replayer.population(group)
    assert rows is not None
    assert np.array_equal(
        features_of(rows).rows(),
        dataset.table().rows[: rows.count * len(features_of(rows).statements)],
    )


def test_a_table_has_a_row_for_each_program() -> None:
    frame = corpus().to_pandas()
    assert len(frame) == 24
    assert set(frame["origin"]) == {"origin 0", "origin 1"}
    assert (frame["failed"] == "timeout").sum() == 2 == frame["median_s"].isna().sum()
    assert frame["median_s"][0] == pytest.approx(2e-3) and frame["best_s"][0] == pytest.approx(1e-3)


def test_a_known_task_gets_its_other_origins() -> None:
    made, task = corpus(), tasks()[0]
    made.add_task(task, [Origin("elsewhere", "other"), Origin("origin 0", "net", 2.0)])
    assert [o.text for o in made.tasks[task.key].origins] == ["origin 0", "elsewhere"]


def test_a_merged_corpus_has_what_both_have() -> None:
    first, second = tasks()
    made, other = Corpus(), Corpus()
    for number, (into, task) in enumerate(((made, first), (other, second), (other, first))):
        into.add_task(task, [Origin(f"origin {number}")])
    elsewhere = replace(SMALL, arch="another")
    mine, theirs = (
        [record_of(first.key, c, target, Timing((seconds,))) for c in candidates(0)]
        for target, seconds in ((SMALL, 1.0), (SMALL, 2.0))
    )
    far = [record_of(second.key, c, elsewhere, Timing((3.0,))) for c in candidates(1)]
    made.append(mine[:8], False)
    other.append(far, True)
    other.append(theirs[4:], True)
    assert made.merge(other) == len(far) + 4
    assert made.merge(other) == 0
    assert [t.arch for t in made.targets] == [SMALL.arch, "another"]
    assert [o.text for o in made.tasks[first.key].origins] == ["origin 0", "origin 2"]
    assert [p.median_s for p in made.programs] == [1.0] * 8 + [3.0] * 12 + [2.0] * 4
    assert [p.searched for p in made.programs] == [False] * 8 + [True] * 16
    keys = [r.candidate_key for r in made.records(second.key)]
    assert keys == [r.candidate_key for r in far]


def test_damaged_and_newer_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.npz"
    with pytest.raises(RecordError, match="cannot be read"):
        Corpus.load(path)
    for text in (b"not an archive", b"", pickle.dumps([1])):
        path.write_bytes(text)
        with pytest.raises(RecordError, match="not a corpus, or damaged: it is no archive"):
            Corpus.load(path)
    corpus().save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    wrong = {
        "sketch": arrays["sketch"] + 100,
        "median_s": arrays["median_s"] * 0,
        "values": arrays["values"][1:],
        "tasks": arrays["tasks"][:-1],
        "searched": arrays["searched"][:-1],
    }
    for name, array in wrong.items():
        np.savez(path, **{**arrays, name: array})
        with pytest.raises(RecordError, match="not a corpus"):
            Corpus.load(path)
    np.savez(path, **{**arrays, "format": np.array(99)})
    with pytest.raises(RecordError, match="newer"):
        Corpus.load(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError):
        Corpus.load(path)


def test_a_program_that_is_another_is_told() -> None:
    made = corpus()
    conv, product = made.measured_tasks
    made.tasks[conv.key] = replace(conv, program=product.program)
    replayer = CorpusReplayer()
    assert [replayer.population(g) is None for g in made.groups() if g.task.key == conv.key]
    assert "12 programs do not replay" in " ".join(replayer.report())


def test_tasks_that_differ_in_their_epilogue_have_one_core() -> None:
    def dag(inner: int, *after: str) -> ComputeDAG:
        data, weight = placeholder((8, inner), name="data"), placeholder((inner, 16), name="weight")
        result: Tensor = matmul(data, weight)
        if "bias" in after:
            result = add(result, placeholder(16, name="bias"), "biased")
        if "relu" in after:
            result = elementwise.relu(result)
        return ComputeDAG([result])

    plain = core_key(dag(32))
    assert plain == core_key(dag(32, "bias")) == core_key(dag(32, "bias", "relu"))
    assert plain != core_key(dag(48))
    assert dag(32).key == plain != dag(32, "relu").key
