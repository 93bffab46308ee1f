"""Targets: which numbers make a machine."""

from __future__ import annotations

from typing import Any

import pytest

from sketch.errors import TargetError
from sketch.target.target import Target


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"kind": "tpu"}, "kind 'tpu'"),
        ({"arch": None}, "arch is None"),
        ({"features": "avx2"}, "feature 'avx2' has no sign"),
        ({"features": "+sse3,avx2"}, "feature 'avx2' has no sign"),
        ({"threads": 0}, "threads is 0 .* 1 or more"),
        ({"threads": 2.0}, r"threads is 2\.0"),
        ({"registers": -1}, "registers is -1"),
        ({"l3_bytes": -1}, "l3_bytes is -1 .* 0 or more"),
        ({"l2_bytes": float("nan")}, "l2_bytes is nan"),
        ({"vector_bytes": 24}, "vector_bytes is 24 .* power of two"),
    ],
)
def test_numbers_of_no_machine_are_refused(changes: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"kind": "cpu", "arch": "generic"} | changes
    with pytest.raises(TargetError, match=message):
        Target(**values)
    with pytest.raises(TargetError, match=message):
        Target.from_json(values)


def test_unknown_and_missing_fields_are_refused() -> None:
    for values in ({"kind": "cpu"}, {"kind": "cpu", "arch": "generic", "cores": 4}):
        with pytest.raises(TargetError, match="not a target"):
            Target.from_json(values)
