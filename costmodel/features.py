"""``Features``: what a model sees of a population of one sketch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of P programs that share one structure.

    Attributes:
        values: float32 [S, F, P]: statements, features (the order of ``FEATURES``), programs.
        statements: the names of the S statements (stages).
    """

    values: NDArray[np.float32]
    statements: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 3 or shape[:2] != (len(self.statements), FEATURE_COUNT) or shape[0] < 1:
            raise CostModelError(
                f"features of shape {shape} for {len(self.statements)} statements",
                hint=f"expected [statements >= 1, {FEATURE_COUNT}, programs]",
            )

    @property
    def count(self) -> int:
        """Programs."""
        return int(self.values.shape[2])

    def rows(self) -> NDArray[np.float32]:
        """[P * S, F], contiguous; program p owns rows ``p * S`` to ``(p + 1) * S``."""
        return np.ascontiguousarray(self.values.transpose(2, 0, 1)).reshape(-1, FEATURE_COUNT)

    def offsets(self) -> NDArray[np.int64]:
        """[P + 1]: where each program's rows start; the last entry is the number of rows."""
        return np.arange(self.count + 1, dtype=np.int64) * len(self.statements)

    def column(self, name: str) -> NDArray[np.float32]:
        """[S, P]: one feature of all statements."""
        return self.values[:, FEATURE_INDEX[name], :]

    def draft_seconds(self) -> NDArray[np.float64]:
        """[P]: the draft model's time, the sum over statements."""
        return self.column("draft_seconds").sum(axis=0, dtype=np.float64)

    def take(self, indices: NDArray[np.int64]) -> Features:
        """The features of some of the programs."""
        return Features(self.values[:, :, indices], self.statements)
