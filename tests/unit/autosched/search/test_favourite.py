"""Without a measurement: the draft narrows, and the model of the release chooses among the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.search.favourite import favourites
from autosched.search.space import space_of
from costmodel.dataset import Dataset
from costmodel.extract import features_of
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from tests.support.targets import AVX512


def product() -> asd.Task:
    a = asd.placeholder((48, 64), name="a")
    b = asd.placeholder((64, 80), name="b", constant=True)
    k = asd.reduce_axis(64, "k")
    c = asd.compute((48, 80), lambda i, j: asd.sum(a[i, k] * b[k, j], k), name="c")
    return asd.Task(asd.ComputeDAG([c]), AVX512)


def test_the_draft_chooses_where_there_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costmodel.shipped.SHIPPED", tmp_path / "none.json")
    space = space_of(product())
    for variant, favourite in favourites(space, AVX512).items():
        best = min(
            drafts[0]
            for sketch, drafts in zip(space.sketches, space.drafts, strict=True)
            if sketch.variant == variant
        )
        assert favourite.seconds == best


def test_the_model_chooses_among_what_the_draft_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of this test was trained to like what the draft likes least."""
    task = product()
    space = space_of(task)
    data = Dataset()
    for sketch, rows, drafts in zip(space.sketches, space.samples, space.drafts, strict=True):
        data.append(sketch.key, features_of(rows), 1.0 / drafts)
    model = GradientBoostedModel(GbdtOptions(trees=60))
    model.update(data)
    path = tmp_path / "shipped.json"
    model.save(path)
    monkeypatch.setattr("costmodel.shipped.SHIPPED", path)
    favourite = next(iter(favourites(space, AVX512).values()))
    number = space.sketches.index(favourite.candidate.sketch)
    rows = space.samples[number].take(np.arange(min(space.samples[number].count, 128)))
    assert favourite.seconds == model.predict(features_of(rows)).min()
    chosen = dict(favourite.candidate.values)
    assert chosen != dict(space.samples[number].row(0))
