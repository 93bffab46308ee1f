"""Rates that were measured on this machine: what is believed, and which targets have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autosched.records.identity import compatible, target_difference
from codegen.calibration import (
    MEASURED,
    Calibration,
    calibration_file,
    known_calibration,
    machine_of,
)
from codegen.host import cpu_target, host_target
from sketch.target.rates import nominal_rates

HERE = host_target(2)
NOMINAL = nominal_rates(HERE.vector_bytes)


@pytest.fixture
def keep(tmp_path, monkeypatch) -> Callable[[str], None]:
    """Writes the text of a calibration where it is looked for, in a home of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def write(text: str) -> None:
        calibration_file().parent.mkdir(parents=True, exist_ok=True)
        calibration_file().write_text(text, encoding="utf-8")

    return write


def made(**changes: object) -> Calibration:
    rates = {name: 1.5 * getattr(NOMINAL, name) for name in MEASURED}
    found = Calibration(machine_of(HERE), 2, rates, dict.fromkeys(MEASURED, 0.01), "load 0.1")
    return replace(found, **changes)  # type: ignore[arg-type]


def test_targets_of_this_machine_have_the_measured_rates(keep):
    assert host_target().rates == NOMINAL
    keep(made().to_text())
    found = host_target(1).rates
    assert {getattr(found, name) / getattr(NOMINAL, name) for name in MEASURED} == {1.5}
    assert replace(found, **{name: getattr(NOMINAL, name) for name in MEASURED}) == NOMINAL
    assert cpu_target("cpu-avx2").rates == nominal_rates(32)


def test_a_file_reads_back_what_was_written(keep):
    keep(made(disturbed=True).to_text())
    assert known_calibration(HERE) == made(disturbed=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no checksum",
        made().to_text().replace("0.01", "0.02", 1),
        made().to_text()[:-40],
        made(machine="another processor").to_text(),
        made(rates={"hertz": 4e9}).to_text(),
        made(rates=dict.fromkeys(MEASURED, -1.0)).to_text(),
        made(rates=dict.fromkeys(MEASURED, float("nan"))).to_text(),
        made(rates=dict.fromkeys(MEASURED, "fast")).to_text(),
    ],
    ids=["empty", "foreign", "changed", "cut", "other machine", "fields", "signs", "nan", "texts"],
)
def test_what_cannot_be_believed_counts_as_none(keep, text):
    keep(text)
    assert known_calibration(HERE) is None
    assert host_target().rates == NOMINAL


def test_records_do_not_tell_machines_apart_by_rates(keep):
    before = host_target(2)
    keep(made().to_text())
    after = host_target(2)
    assert after != before
    assert compatible(before, after) and target_difference(before, after) == ()
