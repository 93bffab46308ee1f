"""Whether a tensor is what torch computes."""

from __future__ import annotations

from typing import Any, Final

# Largest difference, relative to the largest element: rounding adds up over a whole graph.
_TOLERANCES: Final = {"torch.float64": 1e-8, "torch.float32": 1e-3}
_HALF_TOLERANCE: Final = 5e-2
# Rounding can move an element to the next integer, or another to the first place.
_OTHER_INTEGERS: Final = 0.01


def agree(ours: Any, theirs: Any) -> bool:
    """Whether two tensors are equal up to rounding; NaN and infinities are in equal places."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if theirs.numel() == 0:
        return True
    if not theirs.dtype.is_floating_point:
        return bool((ours != theirs).double().mean() <= _OTHER_INTEGERS)
    tolerance = _TOLERANCES.get(str(theirs.dtype), _HALF_TOLERANCE)
    ours, theirs = ours.double(), theirs.double()
    finite = theirs[theirs.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return bool(ours.isclose(theirs, rtol=0, atol=tolerance * largest, equal_nan=True).all())
