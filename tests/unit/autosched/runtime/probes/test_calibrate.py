"""Measuring rates: what is kept, what a busy machine is told, and the command line."""

from __future__ import annotations

import json
import math

import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.runtime.errors import CalibrationError
from autosched.runtime.probes import calibrate as calibration
from autosched.runtime.probes.operations import region_seconds, vector_seconds
from autosched.system.stability import Conditions
from codegen.calibration import MEASURED, calibration_file
from codegen.host import host_target
from sketch.lang.functions import exp
from sketch.target.rates import USUAL_RATES, nominal_rates

# Of five rounds: speeds count by their largest, costs by their least.
FACTORS = (1.0, 0.98, 1.01, 0.99, 1.0)


@pytest.fixture
def rounds(tmp_path, monkeypatch):
    """A machine without calibration, whose rounds take no time; ``conditions`` are to be set."""
    monkeypatch.setenv("HOME", str(tmp_path))
    state = {"conditions": Conditions(0.1, 0.0, 0.01), "factors": iter(FACTORS)}

    class Quiet(calibration.Watch):
        def __exit__(self, *_):
            self.conditions = state["conditions"]

    def one_round(_):
        factor = next(state["factors"])
        return dict.fromkeys(MEASURED, 1e-6 * factor)

    monkeypatch.setattr(calibration, "Watch", Quiet)
    monkeypatch.setattr(calibration, "_round", one_round)
    return state


def test_the_best_round_counts_and_is_kept(rounds):
    found = asd.calibrate()
    # all in terms of the clock, itself the best of the rounds
    per_cycle = found.rates["hertz"] * asd.Target("cpu").vector_bytes
    assert found.rates["memory"] == pytest.approx(1.01e-6 / per_cycle)
    assert found.rates["region"] == pytest.approx(0.98e-6 * found.rates["hertz"])
    assert not found.disturbed and found.spread["l2"] == pytest.approx(0.0114, abs=1e-3)
    assert asd.Target("cpu").rates == found.applied() != USUAL_RATES


def test_a_busy_machine_is_refused_with_figures(rounds):
    rounds["conditions"] = Conditions(2.1, 0.12, 0.3)
    with pytest.raises(CalibrationError, match=r"load 2\.1, 12 % stolen, 30 % used .*idle"):
        asd.calibrate()
    assert not calibration_file().exists()
    rounds["factors"] = iter(FACTORS)
    assert asd.calibrate(force=True).disturbed
    assert calibration.current_calibration() is not None


def test_rounds_that_differ_are_a_busy_machine(rounds):
    rounds["factors"] = iter((1.0, 0.5, 1.0, 0.7, 1.2))
    with pytest.raises(CalibrationError, match=r"differs by \d\d % from round to round"):
        asd.calibrate()


def test_a_folder_that_cannot_be_written_is_one_error(rounds):
    calibration_file().parent.parent.mkdir(parents=True)
    calibration_file().parent.write_text("a file")
    with pytest.raises(CalibrationError, match="cannot be kept"):
        asd.calibrate()
    assert len(list(rounds["factors"])) == len(FACTORS)  # nothing was measured in vain


def test_on_the_command_line(rounds, capsys):
    assert main(["calibrate", "--show"]) == 0
    assert "not calibrated" in capsys.readouterr().out
    assert main(["calibrate"]) == 0
    assert "float_math" in capsys.readouterr().out
    assert main(["calibrate", "--show", "--json", "-"]) == 0
    assert set(json.loads(capsys.readouterr().out)["rates"]) == set(MEASURED)
    assert main(["calibrate", "--reset", "--show"]) == 1
    assert "exclude each other" in capsys.readouterr().err
    assert main(["calibrate", "--reset"]) == 0
    assert not calibration_file().exists()
    assert asd.Target("cpu").rates == nominal_rates(host_target(1).vector_bytes)


def test_functions_and_regions_take_time(monkeypatch):
    monkeypatch.setattr("autosched.runtime.probes.operations._CALLS", 200)
    here = host_target(2)
    assert 1e-10 < vector_seconds(here, exp) < 1e-6
    assert 0.0 <= region_seconds(here) < 1e-2 and math.isfinite(region_seconds(here))
