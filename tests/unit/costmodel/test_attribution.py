"""What drives a prediction: SHAP values add up to it, in groups that all features belong to."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.attribution import ESTIMATE, GROUP_NAMES, drivers
from costmodel.dataset import Dataset
from costmodel.extract import features_of
from costmodel.extract.bounds import TERM_NAMES, program_terms
from costmodel.feature_table import FEATURES
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from sketch.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import explore
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag

OPTIONS = GbdtOptions(trees=8, least_trees=8)


def one_statement(count: int = 48) -> Features:
    sketch = explore(matmul_dag(), SMALL).sketches[0]
    return features_of(sample(sketch, count, np.random.default_rng(0)))


def trained(features: Features, options: GbdtOptions = OPTIONS) -> GradientBoostedModel:
    dataset, model = Dataset(), GradientBoostedModel(options)
    tile = 1.0 + features.column("tile_registers").max(axis=0).astype(np.float64)
    dataset.append("task", features, 1e-6 * tile)
    model.update(dataset)
    return model


def test_every_group_has_a_name() -> None:
    groups = {feature.group.rstrip("0123456789") for feature in FEATURES}
    assert groups == set(GROUP_NAMES)
    assert len({*GROUP_NAMES.values(), ESTIMATE}) == len(GROUP_NAMES) + 1


@pytest.mark.parametrize("on_draft", [True, False])
def test_contributions_add_up_to_what_is_predicted(on_draft: bool) -> None:
    features = one_statement()
    model = trained(features, GbdtOptions(trees=8, least_trees=8, on_draft=on_draft))
    added = model.contributions(features).sum(axis=1)
    base = np.log(features.draft_seconds()) if on_draft else 0.0
    rest = np.log(model.predict(features)) - base - added
    if len(features.statements) == 1:
        np.testing.assert_allclose(rest, rest[0], atol=1e-6)  # the mean of all statements
    assert added.std() > 0.1
    assert (GradientBoostedModel().contributions(features) == 0).all()


def test_what_the_time_depends_on_drives_it() -> None:
    features = one_statement()
    model = trained(features, GbdtOptions(trees=30, least_trees=30, on_draft=False))
    best = features.take(np.array([int(model.predict(features).argmin())]))
    found = [item for item in drivers(model, best, [features], most=99) if item.name != ESTIMATE]
    assert found[0].change < -0.1
    assert len({item.name for item in found}) == len(found)


def test_terms_are_those_of_the_draft() -> None:
    sketch = explore(matmul_dag(), SMALL).sketches[0]
    rows = sample(sketch, 1, np.random.default_rng(1))
    found = program_terms(lower(sketch, dict(rows.row(0))), SMALL)
    features = features_of(rows)
    names = found.by_name()
    assert tuple(names) == TERM_NAMES and min(names.values()) >= 0.0
    total = float(features.draft_seconds()[0])
    assert max(names.values()) <= total * 1.0001 <= sum(names.values()) * 1.0002
    assert 0 < found.compute <= float(features.column("draft_compute_seconds").sum()) * 1.0001
