"""``Features``: what a model sees of a population of one sketch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX, FEATURE_NAMES


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of P programs that share one structure.

    Attributes:
        values: float32 [S, F, P]: statements, features (the order of ``names``), programs.
        statements: the names of the S statements (stages).
        extra: names of the extra features, which follow those of the table.
    """

    values: NDArray[np.float32]
    statements: tuple[str, ...]
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape, width = self.values.shape, FEATURE_COUNT + len(self.extra)
        if len(shape) != 3 or shape[:2] != (len(self.statements), width) or shape[0] < 1:
            raise CostModelError(
                f"features of shape {shape} for {len(self.statements)} statements",
                hint=f"expected [statements >= 1, {width}, programs]",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the F features: those of the table, then the extra ones."""
        return (*FEATURE_NAMES, *self.extra)

    @property
    def count(self) -> int:
        """Programs."""
        return int(self.values.shape[2])

    def rows(self) -> NDArray[np.float32]:
        """[P * S, F], contiguous; program p owns rows ``p * S`` to ``(p + 1) * S``."""
        return np.ascontiguousarray(self.values.transpose(2, 0, 1)).reshape(
            -1, self.values.shape[1]
        )

    def offsets(self) -> NDArray[np.int64]:
        """[P + 1]: where each program's rows start; the last entry is the number of rows."""
        return np.arange(self.count + 1, dtype=np.int64) * len(self.statements)

    def column(self, name: str) -> NDArray[np.float32]:
        """[S, P]: one feature of all statements."""
        place = FEATURE_INDEX.get(name)
        return self.values[:, self.names.index(name) if place is None else place, :]

    def draft_seconds(self) -> NDArray[np.float64]:
        """[P]: the draft model's time, the sum over statements."""
        return self.column("draft_seconds").sum(axis=0, dtype=np.float64)

    def take(self, indices: NDArray[np.int64]) -> Features:
        """The features of some of the programs."""
        return Features(self.values[:, :, indices], self.statements, self.extra)
