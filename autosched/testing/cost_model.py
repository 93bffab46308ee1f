"""What every cost model must do, whatever it learns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from autosched.testing.expected_error import raises
from costmodel.checked import checked_prediction, checked_ready, checked_update
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX
from costmodel.features import Features
from costmodel.model import CostModel


def synthetic(programs: int, statements: int, seed: int) -> tuple[Features, NDArray[Any]]:
    """Programs whose time is the draft's, distorted by two other features.

    Returns:
        Features of ``programs`` programs with ``statements`` statements, and their seconds.
    """
    rng = np.random.default_rng(seed)
    values = rng.lognormal(size=(statements, FEATURE_COUNT, programs)).astype(np.float32)
    draft = values[:, FEATURE_INDEX["draft_seconds"]]
    spill = values[:, FEATURE_INDEX["register_spill"]]
    tail = values[:, FEATURE_INDEX["tail_valid"]]
    times = (draft * (1 + 3 * (spill > 1)) / np.minimum(tail, 2)).sum(axis=0, dtype=np.float64)
    return Features(values, tuple(f"s{i}" for i in range(statements))), times


class CostModelConformance(ABC):
    """What a cost model promises: positive times, learning from any data, files that keep it.

    A subclass defines ``make``.

    Attributes:
        damages: how many files with a flipped bit are read; 0 where a file is trusted (a pickle).
        damage_shows: whether a damaged file that is read without an error predicts what the model
            did; False where a wrong digit cannot be told from a right one.
        by_features: whether a prediction follows from the program's features; False for chance.
    """

    damages: ClassVar[int] = 40
    damage_shows: ClassVar[bool] = True
    by_features: ClassVar[bool] = True

    @abstractmethod
    def make(self) -> CostModel:
        """A new model that has learned nothing; an equal one with every call."""

    def load(self, path: Path) -> CostModel:
        """The model that ``CostModel.save`` wrote to a file."""
        return type(self.make()).load(path)

    def trained(self) -> CostModel:
        """A model that has learned ``data``."""
        model = self.make()
        model.update(self.data())
        return model

    def data(self) -> Dataset:
        """Two tasks, 60 programs each, the last two of which failed."""
        dataset = Dataset()
        for seed, statements in enumerate((1, 3)):
            features, times = synthetic(60, statements, seed)
            dataset.append(f"task{seed}", features, [*times[:-2], None, None])
        return dataset

    def test_is_a_cost_model(self) -> None:
        """It has the methods of the protocol."""
        assert isinstance(self.make(), CostModel)

    def test_predictions_are_positive_times(self) -> None:
        """Untrained or not: one finite, positive float64 a program."""
        for model in (self.make(), self.trained()):
            for statements in (1, 2):
                predicted = model.predict(synthetic(17, statements, 9)[0])
                assert predicted.shape == (17,) and predicted.dtype == np.float64
                assert np.isfinite(predicted).all() and (predicted > 0).all()

    def test_is_ready_after_an_update(self) -> None:
        """``ready`` says that it has learned."""
        assert self.trained().ready

    def test_no_or_few_data_are_no_error(self) -> None:
        """An empty dataset, two programs, and only failures are data."""
        model = self.make()
        model.update(Dataset())
        few = Dataset()
        features, times = synthetic(2, 1, 4)
        few.append("a", features, times)
        failed = Dataset()
        failed.append("a", features, [None, None])
        model.update(few)
        model.update(failed)
        assert model.predict(features).shape == (2,)

    def test_updates_can_follow_each_other(self) -> None:
        """``update`` is called with all data so far, again and again."""
        model, dataset = self.trained(), self.data()
        features, times = synthetic(30, 2, 11)
        dataset.append("task2", features, times)
        model.update(dataset)
        assert np.isfinite(model.predict(features)).all()

    def test_saving_keeps_predictions(self, tmp_path: Path) -> None:
        """A loaded model predicts what the saved one did, to the bit."""
        features, _ = synthetic(20, 2, 12)
        for model in (self.make(), self.trained()):
            model.save(tmp_path / "model")
            loaded = self.load(tmp_path / "model")
            assert loaded.ready == model.ready
            np.testing.assert_array_equal(loaded.predict(features), model.predict(features))

    def test_wrong_files_are_errors(self, tmp_path: Path) -> None:
        """What is no file of a model is a CostModelError."""
        path = tmp_path / "model"
        for text in ("nonsense", "[" * 100_000, "{}", "[]", "null", '{"model": 1, "state": {}}'):
            path.write_text(text)
            with raises(CostModelError):
                self.load(path)
        with raises(CostModelError):
            self.load(tmp_path / "missing")

    def test_damaged_files_are_errors_or_the_same_model(self, tmp_path: Path) -> None:
        """A flipped bit never gives another model."""
        features, _ = synthetic(7, 1, 3)
        model, path = self.trained(), tmp_path / "model"
        model.save(path)
        written, rng = path.read_bytes(), np.random.default_rng(0)
        expected = self.load(path).predict(features)
        for _ in range(self.damages):
            damaged = bytearray(written)
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
            path.write_bytes(damaged[: rng.choice([len(damaged), int(rng.integers(len(damaged)))])])
            try:
                found = self.load(path).predict(features)
            except CostModelError:
                continue
            if self.damage_shows:
                np.testing.assert_array_equal(found, expected)

    def test_what_it_predicts_passes_the_check(self) -> None:
        """The checks that a search makes find nothing."""
        for model in (self.make(), self.trained()):
            assert checked_ready(model) in (True, False)
            for programs in (1, 5):
                features, _ = synthetic(programs, 2, 6)
                assert checked_prediction(model, features).shape == (programs,)
        checked_update(self.make(), self.data())

    def test_the_same_data_give_the_same_predictions(self) -> None:
        """Training has no randomness but its seed."""
        features, _ = synthetic(20, 2, 12)
        a, b = (self.trained().predict(features) for _ in range(2))
        np.testing.assert_array_equal(a, b)

    def test_a_prediction_does_not_depend_on_those_beside_it(self) -> None:
        """Programs of several sketches are ranked by predictions that are made apart."""
        features, _ = synthetic(9, 2, 13)
        for model in (self.make(), self.trained()) if self.by_features else ():
            together = model.predict(features)
            for n in range(features.count):
                alone = Features(features.values[:, :, n : n + 1].copy(), features.statements)
                np.testing.assert_allclose(model.predict(alone), together[n], rtol=1e-4)

    def test_what_it_is_given_stays_as_it_is(self) -> None:
        """Features and data are shared with the rest of the search."""
        features, _ = synthetic(9, 2, 14)
        model, data, values = self.make(), self.data(), features.values.copy()
        for _ in range(2):
            model.update(data)
            model.predict(features)
        np.testing.assert_array_equal(features.values, values)
        found, expected = data.table(), self.data().table()
        assert data.tasks == self.data().tasks
        for name in ("rows", "offsets", "groups", "seconds"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
