"""The tables of the comparison of policies."""

from __future__ import annotations

import numpy as np

from autosched.research import PARTS, StudyResult, StudyRun, StudySetting
from autosched.task import Task
from autosched.tuning.objectives import weighted_sum
from benchmarks import policies
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag


def by_hand() -> StudyResult:
    runs = [
        StudyRun(StudySetting(name, "gbdt", "gradient"), 0, np.zeros(2, int), np.array(seconds))
        for name, seconds in (("evolutionary", [2.0, 1.0]), ("random", [4.0, 8.0]))
    ]
    task = Task(matmul_dag(), SMALL, "matmul")
    return StudyResult((task,), tuple(runs), weighted_sum, (1.0,), "by hand")


def test_a_table_has_a_line_for_each_setting() -> None:
    assert policies.markdown(by_hand(), (1, 2)).splitlines() == [
        "|  | 1 trials | 2 trials |",
        "| --- | ---: | ---: |",
        "| evolutionary | 0.500 (0.500-0.500) | 1.000 (1.000-1.000) |",
        "| random | 0.250 (0.250-0.250) | 0.250 (0.250-0.250) |",
    ]
    rows = policies.rows_of("policies", by_hand(), (2,))
    assert [row["speed"] for row in rows] == [{"2": 1.0}, {"2": 0.25}]
    assert rows[0]["name"] == "policies: evolutionary" and rows[0]["tasks"] == ["matmul"]


def test_all_tables_are_relative_to_the_best_of_all(monkeypatch) -> None:
    asked = []

    def compare(*axes, **options):
        asked.append(axes)
        found = by_hand()
        return StudyResult(found.tasks, found.runs, weighted_sum, (1.0 / len(asked),), "")

    monkeypatch.setattr(policies, "compare", compare)
    found = policies.comparisons(by_hand().tasks, None, 4, 2)
    assert {item.known_s for item in found.values()} == {(0.25,)} and len(asked) == 4
    assert asked[1][0] == ("evolutionary", *(f"without {part}" for part in PARTS))
