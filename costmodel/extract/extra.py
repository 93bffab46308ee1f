"""Columns of extra features: functions of users, asked with suspicion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.extra_feature import ExtraFeature, extra_names
from costmodel.extract.recorded import features_of
from costmodel.extract.statement import Statement, statements_of
from costmodel.features import Features
from sketch.lower import lower
from sketch.population.population import Population


class ExtraColumns:
    """Features of populations with the columns of extra features.

    A function that fails is named once; from then on its column is 0 in all programs.

    Args:
        features: the functions.
        on_fault: told the name of a feature that failed, and what was wrong.
    """

    def __init__(
        self,
        features: Sequence[ExtraFeature] = (),
        on_fault: Callable[[str, str], None] = lambda name, text: None,
    ) -> None:
        self.names = extra_names(features)
        self._features, self._on_fault = tuple(features), on_fault
        self._failed: set[str] = set()

    def features_of(self, population: Population) -> Features:
        """All features of all rows."""
        features = features_of(population)
        if not self._features:
            return features
        count = population.count
        nest = lower(population.sketch, population.columns())
        statements = statements_of(nest)
        _protect(statements)
        extra = np.zeros((len(statements), len(self.names), count), dtype=np.float32)
        for place, feature in enumerate(self._features):
            if feature.name not in self._failed:
                extra[:, place] = self._column(feature, statements, count)
        values = np.concatenate([features.values, extra], axis=1)
        return replace(features, values=values, extra=self.names)

    def _column(
        self, feature: ExtraFeature, statements: Sequence[Statement], count: int
    ) -> NDArray[np.float32]:
        """[S, P]; 0 where the function fails."""
        try:
            return np.stack([_asked(feature, statement, count) for statement in statements])
        except CostModelError as error:
            self._failed.add(feature.name)
            self._on_fault(feature.name, str(error))
            return np.zeros((len(statements), count), dtype=np.float32)


def _protect(statements: Sequence[Statement]) -> None:
    """Numbers of loops cannot be written to: every function is given the same."""
    for loop in (loop for item in statements for site in item.sites for loop in site.loops):
        for quantity in (loop.extent, loop.stride, loop.reach):
            if isinstance(quantity, np.ndarray):
                quantity.setflags(write=False)


def _asked(feature: ExtraFeature, statement: Statement, count: int) -> NDArray[np.float32]:
    """[P]: the feature of one statement, finite."""
    where = f"extra feature {feature.name}, statement {statement.name}"
    with np.errstate(all="ignore"):
        try:
            given = np.asarray(feature.function(statement))
            if given.dtype.kind not in "fiub":
                raise TypeError(f"an array of {given.dtype} is no array of numbers")
            column = given.astype(np.float32)
        except Exception as error:  # the boundary: a function may be anybody's code
            text = " ".join(str(error).split())[:300]
            raise CostModelError(f"it raised {type(error).__name__}: {text}", where) from error
    if column.shape not in ((), (count,)):
        raise CostModelError(
            f"it gave an array of shape {column.shape} for {count} programs", where,
            f"return shape ({count},), one number for each program",
        )  # fmt: skip
    bad = ~np.isfinite(column)
    if bad.any():
        raise CostModelError(
            f"it gave {int(bad.sum())} numbers that are not finite as float32", where
        )
    return np.broadcast_to(column, (count,))
