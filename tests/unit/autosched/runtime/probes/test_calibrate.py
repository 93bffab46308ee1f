"""Measuring rates: what is kept, what a busy machine is told, and the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.runtime.errors import CalibrationError
from autosched.runtime.probes import calibrate as calibration
from autosched.runtime.probes.operations import region_seconds, vector_seconds
from autosched.system.stability import Conditions
from autosched.system.user_warnings import AutoschedWarning
from codegen.calibration import MEASURED, calibration_file
from codegen.host import host_target
from sketch.lang.functions import exp
from sketch.target.rates import USUAL_RATES, nominal_rates
from sketch.target.target import Target

# How fast the machine is in five rounds: what others leave of it.
FACTORS = (1.0, 0.98, 1.01, 0.99, 1.0)
QUIET, BUSY = Conditions(0.1, 0.0, 0.01), Conditions(2.1, 0.12, 0.3)


class Machine:
    """Rounds on a clock that nothing else moves.

    Attributes:
        factors: how fast the machine is in each round; the last number is that of all others, too.
        conditions: of the rounds before ``quiet_from``.
        round_s: what a round takes.
        rounds: how many were measured.
    """

    def __init__(self) -> None:
        self.factors: Sequence[float] = FACTORS
        self.conditions, self.quiet_from = BUSY, 0
        self.round_s, self.rounds, self.now = 1.0, 0, 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def round(self, _: Target) -> dict[str, float]:
        factor = self.factors[min(self.rounds, len(self.factors) - 1)]
        self.rounds += 1
        self.now += self.round_s
        names = (*MEASURED, calibration._ALONE)
        costs = {name: 1e-6 / factor for name in calibration._COSTS}
        return {**dict.fromkeys(names, 1e-6 * factor), **costs, calibration._ALONE: 1e-7 / factor}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One without calibration, whose rounds take no time."""
    monkeypatch.setenv("HOME", str(tmp_path))
    found = Machine()

    class Looking(calibration.Watch):
        def __exit__(self, *_: object) -> None:
            quiet = found.rounds > found.quiet_from
            self.conditions = QUIET if quiet else found.conditions

    monkeypatch.setattr(calibration, "Watch", Looking)
    monkeypatch.setattr(calibration, "_round", found.round)
    monkeypatch.setattr(calibration, "time", found)
    return found


def test_the_best_round_counts_and_is_kept(machine: Machine) -> None:
    found = asd.calibrate()
    # all in terms of the clock, itself the best of the rounds
    per_cycle = found.rates["hertz"] * asd.Target("cpu").vector_bytes
    assert found.rates["memory"] == pytest.approx(1.01e-6 / per_cycle)
    assert found.rates["region"] == pytest.approx(0.9e-6 / 1.01 * found.rates["hertz"])
    assert not found.disturbed and found.spread["l2"] == pytest.approx(0.01 / 1.01)
    assert set(found.rates) == set(found.spread) == set(MEASURED) and machine.rounds == 5
    assert asd.Target("cpu").rates == found.applied() != USUAL_RATES


def test_programs_that_run_all_the_time_are_refused_with_figures(machine: Machine) -> None:
    """They slow all rounds alike."""
    machine.quiet_from = 10**6
    with pytest.raises(CalibrationError, match=r"load 2\.1, 12 % stolen, 30 % used .*idle"):
        asd.calibrate()
    assert not calibration_file().exists() and 30.0 <= machine.now <= 32.0
    with pytest.warns(AutoschedWarning, match=r"though the machine was busy: load 2\.1, .*all the"):
        assert asd.calibrate(force=True).disturbed
    assert calibration.current_calibration() is not None


@pytest.mark.parametrize(
    ("conditions", "quiet_from"),
    [(Conditions(0.4, 0.12, 0.02), 10**6), (BUSY, 3)],
    ids=["a hypervisor", "another program for a while"],
)
def test_who_takes_time_now_and_then_does_no_harm(
    machine: Machine, conditions: Conditions, quiet_from: int
) -> None:
    machine.conditions, machine.quiet_from = conditions, quiet_from
    assert not asd.calibrate().disturbed and machine.rounds == 5


def test_rounds_go_on_until_the_best_agree(machine: Machine) -> None:
    """Most of them are disturbed, several in a row, too."""
    machine.factors = (1.0, 0.5, 0.7, 0.6, 0.8, 0.5, 0.5, 0.6, 0.98, 0.4, 0.99)
    found = asd.calibrate()
    assert not found.disturbed and machine.rounds == len(machine.factors)
    assert max(found.spread.values()) == pytest.approx(0.0204, abs=1e-3)
    assert machine.now == 5 + 2 * 6  # with a pause before each of those that follow


def test_rounds_that_never_agree_are_a_busy_machine(machine: Machine) -> None:
    machine.factors = (1.0, 0.5, 1.0, 0.7, *(0.7 for _ in range(60)))
    with pytest.raises(CalibrationError, match=r"differs by 43 % among its best 3 rounds"):
        asd.calibrate()
    assert 30.0 <= machine.now <= 32.0 and machine.rounds < 20
    assert not calibration_file().exists()
    machine.rounds = 0
    with pytest.warns(AutoschedWarning, match="differs by 43 %"):
        found = asd.calibrate(force=True)
    assert found.disturbed and found.spread["memory"] == pytest.approx(0.3)


def test_rounds_of_a_slow_machine_are_at_least_three(machine: Machine) -> None:
    machine.round_s = 60.0
    assert not asd.calibrate().disturbed and machine.rounds == 3


def test_a_folder_that_cannot_be_written_is_one_error(machine: Machine) -> None:
    calibration_file().parent.parent.mkdir(parents=True)
    calibration_file().parent.write_text("a file")
    with pytest.raises(CalibrationError, match="cannot be kept"):
        asd.calibrate()
    assert machine.rounds == 0  # nothing was measured in vain


def test_on_the_command_line(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--show"]) == 0
    assert "not calibrated" in capsys.readouterr().out
    assert main(["calibrate"]) == 0
    assert "float_math" in capsys.readouterr().out
    assert main(["calibrate", "--show", "--json", "-"]) == 0
    assert set(json.loads(capsys.readouterr().out)["rates"]) == set(MEASURED)
    machine.quiet_from = 10**6
    assert main(["calibrate"]) == 1
    assert "the machine was busy" in capsys.readouterr().err
    assert main(["calibrate", "--force"]) == 0
    out, err = capsys.readouterr()
    assert "warning: rates are kept though the machine was busy" in err
    assert "spread %" in out and "kept though the machine was busy" in out
    assert main(["calibrate", "--reset", "--show"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert main(["calibrate", "--reset"]) == 0
    assert not calibration_file().exists()
    assert asd.Target("cpu").rates == nominal_rates(host_target(1).vector_bytes)


def test_functions_and_regions_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.probes.operations._CALLS", 200)
    here = host_target(2)
    assert 1e-10 < vector_seconds(here, exp) < 1e-6
    assert all(0.0 < seconds < 1e-2 for seconds in region_seconds(here))
