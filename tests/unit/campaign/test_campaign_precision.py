"""Planted inaccuracy and planted leaks are found."""

from __future__ import annotations

import pytest

import autosched as asd
from campaign.precision import lengths
from campaign.precision.leaks import Held, growth, held
from campaign.precision.lengths import PART


def ignore(phase: str) -> None:
    pass


@pytest.mark.parametrize("operation", ["mean", "softmax"])
def test_a_result_that_is_a_little_off_is_wrong(operation, monkeypatch):
    case = {
        "operation": operation, "length": 3000, "distribution": "positive", "threads": 1, "seed": 1
    }  # fmt: skip
    assert PART.judge(case, ignore).outcome == "right"
    expression, function = lengths._OPERATIONS[operation]

    def off(x, size):
        true = expression(x, size)
        return asd.compute(true.shape, lambda i: true[i] * 1.00001, name="off")

    monkeypatch.setitem(lengths._OPERATIONS, operation, (off, function))
    assert PART.judge(case, ignore).outcome == "wrong"


@pytest.mark.slow
def test_growth_names_what_grows():
    before = held()
    assert before.memory > 2**20
    assert growth(before, before, 100, 100) is None
    assert "memory" in growth(before, before._replace(memory=before.memory + 2**24), 100, 100)
    assert "files" in growth(before, before._replace(files=before.files + 1), 100, 100)
    assert "threads" in growth(Held(0, 0, 1, 0), Held(0, 0, 9, 0), 100, 100)
    assert "mappings" in growth(before, before._replace(maps=before.maps + 500), 100, 100)
