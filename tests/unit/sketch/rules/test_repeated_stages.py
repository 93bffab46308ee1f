"""What an element-wise stage would compute again in each of many rows is computed ahead."""

from __future__ import annotations

import pytest

import autosched as asd
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Axis, Expr
from sketch.rules.generate import generate
from sketch.schedule.steps import Inline
from tests.support.targets import AVX512

CHANNELS = 64


def _scaled(rows: int, along: str) -> ComputeDAG:
    """``x * exp(scale)``, one scale for each channel or for each row."""
    data = asd.placeholder((rows, CHANNELS), name="x")
    number = CHANNELS if along == "channels" else rows
    scale = asd.placeholder((number,), name="s")
    factor = asd.compute((number,), lambda i: asd.exp(scale[i]), name="factor")

    def element(row: Axis, channel: Axis) -> Expr:
        return data[row, channel] * factor[channel if along == "channels" else row]

    return ComputeDAG([asd.compute((rows, CHANNELS), element, name="y")])


@pytest.mark.parametrize(
    ("rows", "along", "inlined"),
    [(256, "channels", False), (8, "channels", True), (256, "rows", True)],
    ids=["many rows", "few rows", "still in a row"],
)
def test_factors(rows: int, along: str, inlined: bool) -> None:
    sketches = generate(_scaled(rows, along), AVX512)
    assert sketches
    for sketch in sketches:
        assert any(isinstance(step, Inline) for step in sketch.steps) == inlined
