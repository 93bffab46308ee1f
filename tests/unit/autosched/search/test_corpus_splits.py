"""Held out are whole tasks, what is like them, whole networks and whole machines."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from autosched.measure.result import Timing
from autosched.records.corpus import Corpus, Origin
from autosched.records.record import record_of
from autosched.search.corpus_data import corpus_dataset, machine_task
from autosched.search.corpus_splits import evaluate_corpus, like_networks
from autosched.search.random_search import RandomPolicy
from autosched.search.space import build_space
from autosched.tasks.spec import TaskSpec
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.evaluation import METRICS
from costmodel.model import DraftModel
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators import elementwise
from sketch.operators.matmul import matmul
from tests.support.targets import SMALL

# Which network a product of each width is of, as it is and with a relu.
_NETWORKS = {16: ("one", "two"), 24: ("one", ""), 40: ("two", "two"), 56: ("", "")}


def product(width: int, relu: bool) -> ComputeDAG:
    data, weight = placeholder((8, width), name="data"), placeholder((width, 32), name="weight")
    result: Tensor = matmul(data, weight)
    return ComputeDAG([elementwise.relu(result) if relu else result])


@functools.cache
def corpus() -> Corpus:
    """Random times."""
    made = Corpus()
    for width, networks in _NETWORKS.items():
        for relu, network in enumerate(networks):
            task = TaskSpec(product(width, bool(relu)), SMALL)
            made.add_task(task, [Origin(network or f"random {width}", network, 1.0 + relu)])
            space = build_space(task.variants, SMALL, quick=True)
            found = RandomPolicy(space, np.random.default_rng(0)).ask(8)
            times = np.random.default_rng(width + relu).uniform(1e-6, 1e-5, len(found))
            made.append(
                [
                    record_of(task.key, candidate, SMALL, Timing((float(seconds),)))
                    for candidate, seconds in zip(found, times, strict=True)
                ],
                False,
            )
    return made


class Watched(DraftModel):
    """Remembers the tasks that it was trained on."""

    trained: list[set[str]] = []  # noqa: RUF012  (of one test, which empties it)

    def update(self, dataset: Dataset) -> None:
        self.trained.append(set(dataset.tasks))


def test_what_differs_in_the_epilogue_is_held_out_together() -> None:
    made = corpus()
    dataset = corpus_dataset(made)
    Watched.trained.clear()
    evaluate_corpus(made, dataset, Watched, networks=[])
    everything = set(dataset.tasks)
    cores = {machine_task(t, SMALL): t.core for t in made.measured_tasks}
    assert len(set(cores.values())) == 4 == len(everything) // 2
    for trained in Watched.trained:
        assert trained < everything
        assert not {cores[t] for t in trained} & {cores[t] for t in everything - trained}


def test_networks_are_held_out_with_what_is_like_them() -> None:
    made = corpus()
    dataset = corpus_dataset(made)
    like = like_networks(made, ["one"])
    cores = {made.tasks[name.split()[0]].core for name in like}
    assert len(like) == 4 and len(cores) == 2  # widths 16 and 24, with a relu and without
    Watched.trained.clear()
    found = evaluate_corpus(made, dataset, Watched, networks=["one", "absent"])
    assert [item.split for item in found] == ["by-task", "one"]
    assert Watched.trained[-1] == set(dataset.tasks) - like
    assert found[1].tasks == 2 and found[1].programs == 16
    both = evaluate_corpus(made, dataset, DraftModel, networks=["one", "two"])
    assert [item.split for item in both] == ["by-task", "one", "two", "networks"]
    for metric in METRICS:
        parts = [getattr(item, metric) for item in both[1:3]]
        assert getattr(both[3], metric) == pytest.approx(np.mean(parts))


def test_a_make_of_machine_is_held_out_as_a_whole() -> None:
    known = corpus()
    there = [program._replace(target=1) for program in known.programs]
    targets = [*known.targets, replace(known.targets[0], arch="other")]
    made = Corpus(known.tasks, targets, known.sketches, [*known.programs, *there])
    Watched.trained.clear()
    found = evaluate_corpus(made, corpus_dataset(made), Watched, networks=[])
    assert [item.split for item in found] == ["by-task", *sorted((SMALL.arch, "other"))]
    for trained, arch in zip(Watched.trained[-2:], sorted((SMALL.arch, "other")), strict=True):
        assert len(trained) == 8 and not any(f" {arch} " in task for task in trained)


def test_a_corpus_of_one_task_cannot_be_split() -> None:
    made = Corpus()
    task = TaskSpec(product(16, False), SMALL)
    made.add_task(task, [Origin("x")])
    found = RandomPolicy(
        build_space(task.variants, SMALL, quick=True), np.random.default_rng(0)
    ).ask(8)
    made.append([record_of(task.key, c, SMALL, Timing((1e-6,))) for c in found], False)
    with pytest.raises(CostModelError, match="cannot be split"):
        evaluate_corpus(made, corpus_dataset(made), DraftModel)
