"""Models judged on programs that they have not seen."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.evaluation import SPLITS, evaluate, predict
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import DraftModel, RandomModel


def make_dataset(tasks: int = 4, programs: int = 50) -> Dataset:
    """Times that a third feature distorts; some programs failed; statements differ by task."""
    dataset = Dataset()
    for task in range(tasks):
        rng = np.random.default_rng(task)
        statements = 1 + task % 2
        values = rng.lognormal(size=(statements, FEATURE_COUNT, programs)).astype(np.float32)
        features = Features(values, tuple(f"s{n}" for n in range(statements)))
        slow = 1.0 + 4.0 * (values[:, FEATURE_INDEX["register_spill"]] > 1)
        times = (features.column("draft_seconds") * slow).sum(axis=0, dtype=np.float64)
        dataset.append(f"task{task}", features, [None, *times[1:]])
    return dataset


class Oracle(DraftModel):
    """Knows the formula."""

    def predict(self, features: Features) -> np.ndarray:
        slow = 1.0 + 4.0 * (features.column("register_spill") > 1)
        return (features.column("draft_seconds") * slow).sum(axis=0, dtype=np.float64)


@pytest.mark.parametrize("split", SPLITS)
def test_an_oracle_is_perfect_but_for_failures(split: str) -> None:
    found = evaluate(make_dataset(), Oracle, split)  # type: ignore[arg-type]
    assert found.programs == 200 and found.tasks == 4 and found.split == split
    assert found.pairwise > 0.9 and found.top_5 == 1.0


@pytest.mark.parametrize("split", SPLITS)
def test_learning_beats_the_draft_and_the_draft_beats_chance(split: str) -> None:
    def gbdt() -> GradientBoostedModel:
        return GradientBoostedModel(GbdtOptions(trees=30))

    found = [
        evaluate(make_dataset(programs=120), make, split)  # type: ignore[arg-type]
        for make in (gbdt, DraftModel, lambda: RandomModel(np.random.default_rng(0)))
    ]
    assert found[0].pairwise > found[1].pairwise > found[2].pairwise
    assert found[0].peak_5 > found[2].peak_5 and found[0].best_1 > found[2].best_1


def test_every_program_is_tested_once_and_never_trained_on() -> None:
    dataset, trained, tested = make_dataset(), [], []

    class Spy(DraftModel):
        def update(self, dataset: Dataset) -> None:
            trained.append(len(dataset))

        def predict(self, features: Features) -> np.ndarray:
            tested.append(features.count)
            return super().predict(features)

    evaluate(dataset, Spy, "within-task")
    assert len(trained) == 5 and set(trained) == {160} and sum(tested) == 200


def test_predictions_keep_the_order_of_programs() -> None:
    dataset = make_dataset()
    programs = np.random.default_rng(3).permutation(200)[:60]
    table = dataset.table()
    mixed = predict(DraftModel(), dataset, programs)
    draft = np.add.reduceat(
        table.rows[:, FEATURE_INDEX["draft_seconds"]].astype(np.float64), table.offsets[:-1]
    )
    np.testing.assert_allclose(mixed, draft[programs])


def test_equal_seeds_give_equal_metrics() -> None:
    one, other = (evaluate(make_dataset(), DraftModel, "by-task", seed=2) for _ in range(2))
    assert one == other


def test_too_few_data_are_an_error() -> None:
    with pytest.raises(CostModelError, match="by task"):
        evaluate(make_dataset(tasks=1), DraftModel, "by-task")
    with pytest.raises(CostModelError, match="successes"):
        evaluate(make_dataset(tasks=2, programs=2), DraftModel, "within-task")


class Constant(DraftModel):
    value: object = 1.0

    def predict(self, features: Features) -> np.ndarray:
        return np.full(features.count, self.value, dtype=float)


def test_a_constant_model_scores_what_chance_does() -> None:
    found = evaluate(make_dataset(), Constant, "within-task")
    assert found.pairwise == 0.5
    better = evaluate(make_dataset(), DraftModel, "within-task")
    assert found.top_1 < better.top_1 and found.peak_1 < better.peak_1


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.0])
def test_predictions_that_are_no_times_have_no_score(value: float) -> None:
    class Bad(Constant):
        pass

    Bad.value = value
    with pytest.raises(CostModelError, match=r"predict gave .* programs \| cost model Bad"):
        evaluate(make_dataset(), Bad, "within-task")


def test_tasks_that_are_too_small_to_be_tested_do_not_count() -> None:
    dataset = make_dataset(2, 24)
    features = Features(np.ones((1, FEATURE_COUNT, 1), np.float32), ("s0",))
    dataset.append("alone", features, [1.0])
    found = evaluate(dataset, DraftModel, "within-task")
    assert (found.tasks, found.programs) == (2, 48)
