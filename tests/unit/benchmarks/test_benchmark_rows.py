"""Rows of several networks: what they are summed up as."""

from __future__ import annotations

import pytest

from benchmarks.no_log import BARS, bars_of
from benchmarks.rows import geometric_means, kept_rows, write_json


def test_means_are_over_the_rows_that_have_a_ratio() -> None:
    columns = ("ratio", "ratio_to_tuned")
    rows = [
        {"name": "a", "ratio": 0.5, "ratio_to_tuned": 1.2},
        {"name": "a", "ratio": 2.0},
        {"name": "b"},
    ]
    means = geometric_means(rows, columns)
    assert means == pytest.approx({"networks": 2, "ratio": 1.0, "ratio_to_tuned": 1.2})
    assert geometric_means([{"name": "c"}], columns) == {"networks": 1}


def test_rows_of_a_stopped_run_are_kept_where_the_budget_is_the_same(tmp_path) -> None:
    path = str(tmp_path / "rows.json")
    assert kept_rows(path, "60s") == kept_rows(None, "60s") == []
    rows = [{"name": "a", "budget": "60s"}, {"name": "b", "budget": "5s"}]
    write_json(path, rows)
    assert kept_rows(path, "60s") == rows[:1]


def test_the_bars_of_networks_without_a_log() -> None:
    rows = [{"compile_s": 61.0}, {"compile_s": 9.0, "ratio_to_tuned": 1.1}]
    more = [{"compile_s": 9.0, "ratio_to_tuned": ratio} for ratio in (1.0, 1.04)]
    found = bars_of([*rows, *more], BARS["quick"])
    assert {what: bar["holds"] for what, bar in found.items()} == {
        "compile_s": False, "median": True, "worst": True,
    }  # fmt: skip
    assert found["median"] == {"reached": 1.04, "at_most": 1.05, "holds": True}
    assert set(bars_of(rows[:1], BARS["draft"])) == {"compile_s"}
