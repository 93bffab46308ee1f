"""What is told of one task: its best schedule and its fastest records, in the program's names."""

from __future__ import annotations

from pathlib import Path

from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.report.explain import explain
from autosched.tuning.options import QUICK
from tests.support.log_mutations import sample_task


def test_records_are_told_in_the_names_of_the_program(tmp_path: Path) -> None:
    task, log = sample_task(), tmp_path / "log.jsonl"
    task.tune(trials=6, log=log, options=QUICK, runner=SimulatedRunner())
    records = RecordLog(log).read().records
    assert all(name[0].isdigit() for record in records for name in record.decisions)
    text = explain(task, log, peak_flops=1e9)
    names = list(task.space.sketches[0].labels.values())
    told = text.split("fastest:")[1]
    assert names and all(f"{name}=" in told for name in names)
