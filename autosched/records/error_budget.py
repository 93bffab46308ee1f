"""The error budget: which algorithms may stand in for the one that a task is written in.

The error of a variant is that of its kernels against float64, relative to the largest output, on
normal data and on data with a large mean: it is measured with the first of its candidates that is
the best of its task, and stands in the records of all that follow.  Records without it, such as
those of older logs, are judged by their errors on the inputs they were checked with; where none of
a task's records has one, by what is known of the algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.records.accuracy import Accuracy
from sketch.analysis.jumps import jumps
from sketch.lang.dtypes import is_float
from sketch.variants import error_growth

if TYPE_CHECKING:
    from autosched.records.record import Record
    from autosched.tasks.candidate import Candidate
    from autosched.tasks.spec import TaskSpec

BEYOND_BUDGET: Final = "BeyondBudget"
"""The kind of a failure at stage "verify" where the kernel is right, but not accurate enough."""


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """What is allowed: the larger of both.

    Attributes:
        largest: error relative to the largest output.
        growth: multiple of the error of the task as it is written.
        network: what all variants of a network may add to its outputs, relative to their largest
            elements.
    """

    largest: float
    growth: float
    network: float = math.inf


_BUDGETS: Final[Mapping[Accuracy, ErrorBudget]] = {
    "as written": ErrorBudget(0.0, 0.0),
    "close": ErrorBudget(1e-5, 4.0, network=1e-5),
    "default": ErrorBudget(1e-5, 4.0, network=1.4e-5),
    "fast": ErrorBudget(1e-4, 4.0),
}


def with_constants(accuracy: Accuracy, constants: Iterable[NDArray[Any]]) -> Accuracy:
    """What may be used with such weights: "as written" where one is infinite.

    Variants transform weights ahead, and differences of infinities are NaN.
    """
    floats = (array for array in constants if is_float(str(array.dtype)))
    return accuracy if all(np.isfinite(array).all() for array in floats) else "as written"


class VariantErrors:
    """What is known of the errors of a task's variants.

    Attributes:
        in_network: the largest error on normal data that a network may have of this task.

    Args:
        reference: name of the variant that the task is written in.
        accuracy: what is allowed.
        hides: whether results jump, so that errors before that do not show.
    """

    def __init__(self, reference: str, accuracy: Accuracy, hides: bool = False) -> None:
        self._reference, self._hides = reference, hides
        self._budget = _BUDGETS[accuracy]
        self.in_network = math.inf
        self._checked: dict[str, float] = {}
        self._measured: dict[str, tuple[float, ...]] = {}

    def note(self, variants: Iterable[str], results: Iterable[MeasureResult]) -> None:
        """Results of candidates, and the variant of each."""
        for variant, result in zip(variants, results, strict=True):
            if not isinstance(result, Timing):
                continue
            if result.error is not None:
                self._checked[variant] = max(result.error, self._checked.get(variant, 0.0))
            if result.variant_errors:
                known = self._measured.get(variant, result.variant_errors)
                self._measured[variant] = max(known, result.variant_errors, key=_worst)

    def hold(self, variant: str, result: MeasureResult) -> MeasureResult:
        """``result``, or a failure where the errors of ``variant`` are known to be too large."""
        errors, growth = self.of(variant), error_growth(variant)
        if variant == self._reference or isinstance(result, Failure):
            return result
        pairs = list(zip(errors, self._limits(len(errors)), strict=True))
        if errors and growth > 1.0:
            pairs.append((expected_error(growth, errors, self._hides), self.in_network))
        for error, limit in pairs:
            if not error <= limit:
                return _beyond(
                    f"variant {variant} has an error of {error:.2g} of the largest output, "
                    f"{limit:.2g} is allowed"
                )
        return result

    def hold_unknown(self, variant: str, result: MeasureResult) -> MeasureResult:
        """``hold``, or a failure where nothing is known of the errors of ``variant``."""
        if variant == self._reference or isinstance(result, Failure) or self.of(variant):
            return self.hold(variant, result)
        if error_growth(variant) <= self._budget.growth:
            return result
        return _beyond(f"the error of variant {variant} was never measured")

    def added(
        self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]
    ) -> list[MeasureResult]:
        """Results with the measured errors of their variants."""
        return [
            replace(result, variant_errors=self._measured.get(candidate.sketch.variant, ()))
            if isinstance(result, Timing)
            else result
            for candidate, result in zip(candidates, results, strict=True)
        ]

    def of(self, variant: str) -> tuple[float, ...]:
        """One for each kind of data, or one of checks; empty where nothing is known."""
        checked = self._checked.get(variant)
        return self._measured.get(variant, () if checked is None else (checked,))

    def _limits(self, count: int) -> list[float]:
        """Of as many kinds of data."""
        checked = self._checked.get(self._reference, 0.0)
        measured = self._measured.get(self._reference, ())
        written = measured if len(measured) == count else (0.0,) * count
        largest, growth = self._budget.largest, self._budget.growth
        return [max(largest, growth * max(checked, error)) for error in written]


def allowed(errors: tuple[float, ...], accuracy: Accuracy) -> bool:
    """Whether a variant may have these errors, where nothing is known of the task as written."""
    return _worst(errors) <= _BUDGETS[accuracy].largest


def allowed_in_network(accuracy: Accuracy) -> float:
    """What all variants of a network may add to its outputs, relative to their largest elements."""
    return _BUDGETS[accuracy].network


def expected_error(growth: float, known: tuple[float, ...], hides: bool) -> float:
    """Of a variant on normal data, relative to the largest element.

    A check allows what rounding may do where results jump, and errors before a jump do not show.

    Args:
        growth: of errors, over those of the task as it is written.
        known: what was measured; empty: it is estimated from how values are rounded.
        hides: whether results jump.
    """
    estimated = growth * float(np.finfo(np.float32).eps)
    if not known:
        return estimated
    return max(known[0], estimated) if hides else known[0]


def _worst(errors: tuple[float, ...]) -> float:
    return max(errors, default=0.0)


def is_beyond_budget(result: MeasureResult) -> bool:
    """Whether the errors of its variant are too large."""
    return isinstance(result, Failure) and result.kind == BEYOND_BUDGET


def _beyond(reason: str) -> Failure:
    return Failure("verify", BEYOND_BUDGET, reason)


def errors_of(task: TaskSpec, records: Sequence[Record], accuracy: Accuracy) -> VariantErrors:
    """What all records of a task say of the errors of its variants."""
    errors = VariantErrors(task.variants[0].name, accuracy, jumps(task.dag.stages))
    mine = [record for record in records if record.task == task.key]
    errors.note([record.variant for record in mine], [record.result for record in mine])
    return errors


def held_to(
    records: Sequence[Record],
    task: TaskSpec,
    accuracy: Accuracy,
    in_network: float = math.inf,
    searched: bool = False,
) -> list[Record]:
    """The records of a task; those of variants that are not allowed are failures.

    With "as written" there are none of other variants at all.

    Args:
        records: of this task and others.
        task: whose records are wanted.
        accuracy: what is allowed.
        in_network: the largest error on normal data that a network may have of the task.
        searched: a search goes on with them: variants whose errors nobody measured may be among
            them, as they will be where they are the fastest.
    """
    reference = task.variants[0].name
    mine = [record for record in records if record.task == task.key]
    if accuracy == "as written":
        return [record for record in mine if record.variant == reference]
    errors = errors_of(task, mine, accuracy)
    errors.in_network = in_network
    hold = errors.hold if searched else errors.hold_unknown
    held = [hold(record.variant, record.result) for record in mine]
    return [
        r if result is r.result else replace(r, result=result)
        for r, result in zip(mine, held, strict=True)
    ]
