"""Which operations of ``block_machine`` NumPy's functions of two operands are."""

from __future__ import annotations

from inspect import unwrap
from typing import Any, Final, NamedTuple

import numpy as np

from costmodel.extract.block_machine import OPERATIONS
from costmodel.extract.quantity import power_of_two

_ARITHMETIC: Final = (np.add, np.subtract, np.multiply, np.divide, np.minimum, np.maximum)
_COMPARISONS: Final = {
    np.greater: ("greater", False),
    np.greater_equal: ("greater_equal", False),
    np.less: ("greater", True),
    np.less_equal: ("greater_equal", True),
    np.equal: ("equal", False),
}


class PairForm(NamedTuple):
    """How two operands are combined.

    Attributes:
        operation: number of the operation.
        kind: of the result.
        swapped: whether the second operand comes first.
        real: which operands become float64 before, or None.
    """

    operation: int
    kind: str
    swapped: bool = False
    real: tuple[bool, bool] | None = None


def _forms() -> dict[tuple[Any, str, str], PairForm]:
    """By function and kinds of the operands: F float64, I int64, B flags."""
    forms: dict[tuple[Any, str, str], PairForm] = {}

    def both(function: np.ufunc, name: str, kind: str | None, swapped: bool = False) -> None:
        real, whole = OPERATIONS[f"{name} F"], OPERATIONS.get(f"{name} I")
        forms[function, "F", "F"] = PairForm(real, kind or "F", swapped)
        for a, b in ("FI", "IF", "FB", "BF"):
            forms[function, a, b] = PairForm(real, kind or "F", swapped, (a != "F", b != "F"))
        for a, b in ("II", "IB", "BI"):
            if whole is None:
                forms[function, a, b] = PairForm(real, "F", swapped, (True, True))
            else:
                forms[function, a, b] = PairForm(whole, kind or "I", swapped)

    for arithmetic in _ARITHMETIC:
        both(arithmetic, arithmetic.__name__, None)
    for comparison, (name, swapped) in _COMPARISONS.items():
        both(comparison, name, "B", swapped)
    forms[unwrap(power_of_two), "F", "F"] = PairForm(OPERATIONS["power_of_two F"], "F")
    forms[np.floor_divide, "I", "I"] = PairForm(OPERATIONS["floor_divide I"], "I")
    for bitwise in (np.bitwise_and, np.bitwise_or):
        for kind in "IB":
            forms[bitwise, kind, kind] = PairForm(OPERATIONS[f"{bitwise.__name__} I"], kind)
    return forms


FORMS: Final = _forms()
