"""The protocol of cost models, and two models that never learn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.features import Features
from costmodel.model_file import write_model

_BIT_GENERATORS: Final[Mapping[str, type[np.random.BitGenerator]]] = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
    )
}
_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


@runtime_checkable
class CostModel(Protocol):
    """Ranks programs of one task.

    Predictions of one task compare with each other, over all its sketches and variants; those of
    different tasks need not.

    Whoever uses a model checks what it answers (``costmodel.checked``): the search goes on without
    one that raises, or predicts something that is no time.
    """

    @property
    def ready(self) -> bool:
        """Whether predictions come from data; before, they are random or follow the draft."""
        ...

    def predict(self, features: Features) -> NDArray[np.float64]:
        """[P]: relative times, finite and positive; lower is better."""
        ...

    def update(self, dataset: Dataset) -> None:
        """Learn from all data so far (earlier data included)."""
        ...

    def save(self, path: Path) -> None:
        """Write the model to one file."""
        ...

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote; raises CostModelError when the file does not fit.

        Loading a file must run no code of it, unless the caller says that it is trusted.
        """
        ...


class RandomModel:
    """Random times: the baseline that every model has to beat."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    @property
    def ready(self) -> bool:
        """Always: there is nothing to learn."""
        return True

    def predict(self, features: Features) -> NDArray[np.float64]:
        """[P]: uniform in (0, 1]."""
        return 1.0 - self._rng.random(features.count)

    def update(self, dataset: Dataset) -> None:
        """Data do not change a random model."""

    def save(self, path: Path) -> None:
        """Write the state of the generator.

        Raises:
            CostModelError: it cannot be written.
        """
        state = {"model": "random", "state": self._rng.bit_generator.state}
        write_model(path, json.dumps(state))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Continue where ``save`` stopped.

        Raises:
            CostModelError: the file is not of this model.
        """
        try:
            state = json.loads(path.read_text(encoding="utf-8"))["state"]
            bits = _BIT_GENERATORS[state["bit_generator"]]()
            bits.state = state
        except _UNREADABLE as error:
            raise CostModelError(
                f"not a random model: {error}", str(path), "give the file that save() wrote"
            ) from error
        return cls(np.random.Generator(bits))


class DraftModel:
    """The analytic draft model as a cost model: what learning has to add to."""

    @property
    def ready(self) -> bool:
        """Always: there is nothing to learn."""
        return True

    def predict(self, features: Features) -> NDArray[np.float64]:
        """[P]: seconds of the draft model, positive."""
        return np.maximum(features.draft_seconds(), 1e-12)

    def update(self, dataset: Dataset) -> None:
        """Data do not change the draft model."""

    def save(self, path: Path) -> None:
        """Write which model it is.

        Raises:
            CostModelError: it cannot be written.
        """
        write_model(path, json.dumps({"model": "draft"}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """The draft model again, if the file says so.

        Raises:
            CostModelError: the file is not of this model.
        """
        try:
            known = json.loads(path.read_text(encoding="utf-8"))["model"] == "draft"
        except _UNREADABLE as error:
            raise CostModelError(
                f"not a draft model: {error}", str(path), "give the file that save() wrote"
            ) from error
        if not known:
            raise CostModelError("another model than the draft", str(path))
        return cls()
