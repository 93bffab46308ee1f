"""The comparison of a result with what the evaluator found."""

from __future__ import annotations

from typing import Final

import numpy as np

from campaign.tensor.numbers import Array, Number, is_float

# The error bound is first order; this covers the rest.
_SAFETY: Final = 2.0


def difference(found: Array, expected: Number) -> tuple[int, str | None]:
    """(elements compared, the first one that is wrong as text)."""
    if found.size != expected.value.size or str(found.dtype) != expected.dtype:
        return 0, f": {found.dtype}{found.shape} is not {expected.dtype}{expected.value.shape}"
    wanted, error = expected.value, expected.error
    found = found.reshape(wanted.shape)
    known = np.isfinite(error)
    if is_float(expected.dtype):
        with np.errstate(all="ignore"):
            values = found.astype(np.float32) if expected.dtype == "bfloat16" else found
            values = values.astype(wanted.dtype)
            same = (np.isnan(values) & np.isnan(wanted)) | (values == wanted)
            near = np.abs(values - wanted) <= _SAFETY * error
            good = same | (near & np.isfinite(wanted))
    else:
        good = found == wanted
    wrong = known & ~good
    if not wrong.any():
        return int(known.sum()), None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    text = (
        f"{list(place)} is {found[place]!s}, expected {wanted[place]!s} within "
        f"{_SAFETY * float(error[place]):.3g}; {int(wrong.sum())} of {wrong.size} are wrong"
    )
    return int(known.sum()), text
