"""What users are told of their variants."""

from __future__ import annotations

import pytest

import autosched as asd
from autosched.testing import check_variant


def product(sign: float) -> asd.ComputeDAG:
    x = asd.placeholder((3,), name="x")
    return asd.ComputeDAG([asd.compute((3,), lambda i: (x[i] + 1.0) * (x[i] + sign), name="y")])


def test_a_variant_is_proven_or_what_differs_is_named() -> None:
    check_variant(product(-1.0), product(-1.0))
    with pytest.raises(AssertionError, match=r"y\[0\] differs by .*2\*"):
        check_variant(product(1.0), product(-1.0))
