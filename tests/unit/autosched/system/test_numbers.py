from __future__ import annotations

import math

import pytest

from autosched.runtime.benchmark import Benchmark
from autosched.system.numbers import four_digits, milliseconds, significant


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (7.90712, 3, "7.907"),
        (12345.678, 3, "12345.678"),
        (0.0172345, 3, "0.0172"),
        (-0.00412, 3, "-0.00412"),
        (0.0999996, 3, "0.1000"),
        (1e-12, 3, "0.0000000"),
        (0.0, 3, "0.000"),
        (0.0172, 1, "0.0172"),
        (123.4, 1, "123.4"),
        (5.0, 1, "5.00"),
        (math.nan, 1, "nan"),
        (math.inf, 1, "inf"),
    ],
)
def test_three_digits_are_seen(value: float, decimals: int, text: str) -> None:
    assert significant(value, decimals) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0172345, "0.01723"), (1234.5, "1234"), (12345.6, "12346")]
)
def test_four_digits_without_an_exponent(value: float, text: str) -> None:
    assert four_digits(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.90712e-3, "7.907"), (1.04e-3, "1.04"), (math.inf, "-")]
)
def test_times_read_alike_everywhere(seconds: float, text: str) -> None:
    assert milliseconds(seconds) == text
    assert f"median {text} ms, " in str(Benchmark("net", (seconds,), 1))
