"""A space that another process built is the one that this process would have built."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from autosched.search.space import is_built, space_of
from autosched.search.space_elsewhere import answer, request, space_from
from autosched.search.space_options import SpaceOptions
from autosched.task import Task
from costmodel.extract import draft_seconds, features_of
from costmodel.extract.recorded import feature_code
from sketch.lang.kept import known_result
from sketch.population.feasible import feasible
from sketch.population.population import mutate
from sketch.rules.backend import default_rules
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag

OPTIONS = SpaceOptions(rows=48)


def task_for(target: Target) -> Task:
    return Task(matmul_dag(16, 24, 32), target)


@pytest.mark.parametrize("target", [SMALL, cuda_target("sm_80")], ids=["cpu", "gpu"])
def test_it_is_the_same_space(target: Target) -> None:
    task, own = task_for(target), task_for(target)
    asked = request(task, OPTIONS)
    assert asked is not None and not is_built(task, OPTIONS)
    there, here = space_from(task, answer(asked)), space_of(own, OPTIONS)
    assert [s.key for s in there.sketches] == [s.key for s in here.sketches]
    assert [s.decisions for s in there.sketches] == [s.decisions for s in here.sketches]
    assert (there.dropped, len(there.cut)) == (here.dropped, len(here.cut))
    assert all(sketch.dag is task.dag for sketch in there.sketches)
    for one, other in zip(there.samples, here.samples, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        children = [mutate(rows, np.random.default_rng(1)) for rows in (one, other)]
        for found in (
            [rows.values for rows in children],
            [feasible(rows.sketch, rows.columns()) for rows in children],
            [features_of(rows).values for rows in children],
            [draft_seconds(rows) for rows in children],
        ):
            np.testing.assert_array_equal(*found)
    for one_s, other_s in zip(there.drafts, here.drafts, strict=True):
        np.testing.assert_array_equal(one_s, other_s)


def test_nothing_is_recorded_again() -> None:
    task = task_for(SMALL)
    asked = request(task, OPTIONS)
    assert asked is not None
    space = space_from(task, answer(asked))
    assert all(known_result(feature_code, sketch) is not None for sketch in space.sketches)
    for rows in space.samples:
        features_of(rows.take([0]))
        assert "program" not in rows.sketch.__dict__
    pickle.loads(pickle.dumps(space.sketches[0]))  # what is known of it stays behind


def test_rules_of_a_user_are_asked_by_this_process_alone() -> None:
    task = task_for(SMALL).with_rules(default_rules(SMALL))
    assert request(task, OPTIONS) is None
