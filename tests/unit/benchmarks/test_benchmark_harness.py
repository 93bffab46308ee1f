"""The harness of the benchmarks: ratios, workers, rows.  Nothing here depends on a clock."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.contender import Prepared
from benchmarks.harness import (
    OURS,
    Comparison,
    Options,
    compare,
    ratio_interval,
    relative_error,
    round_count,
)
from benchmarks.placement import Exchange, Placement
from benchmarks.rows import comparison_row
from benchmarks.worker import ContenderError, Worker
from benchmarks.workloads import CONVOLUTIONS, Matmul

WORKLOAD = Matmul("tiny", 4, 5, 6, constant_b=True)


@dataclass(frozen=True)
class NumPyProduct:
    name: str = OURS
    fails: bool = False

    def supports(self, workload):
        return isinstance(workload, Matmul)

    def prepare(self, workload, threads):
        if self.fails:
            raise RuntimeError("no such instruction")
        arrays = workload.arrays()
        out = np.empty((workload.m, workload.n), np.float32)
        return Prepared(
            run=lambda: np.matmul(arrays["A"], arrays["B"], out=out),
            outputs=lambda: {"C": out},
            note="row-major",
            details=lambda: {"threads": threads},
        )


def test_ratio_is_that_of_the_medians_of_the_fastest_rival():
    ours, slow, fast = np.full(9, 2.0), np.full(9, 8.0), np.full(9, 5.0)
    assert ratio_interval(ours, [slow, fast]) == (2.5, 2.5)


def test_interval_widens_with_noise_and_stays_below_the_point():
    rng = np.random.default_rng(0)
    ours = np.exp(rng.normal(0, 0.2, 9))
    ratio, low = ratio_interval(ours, [np.full(9, 1.0)])
    assert low < ratio


def test_drift_that_all_share_cancels():
    drift = np.linspace(1, 3, 9)
    ratio, low = ratio_interval(drift, [1.5 * drift])
    assert ratio == pytest.approx(1.5)
    assert low == pytest.approx(1.5)


def test_too_few_rounds_are_refused():
    with pytest.raises(ValueError, match="at least 7"):
        Options(rounds=6)


def test_relative_error():
    reference = np.array([1.0, -4.0], np.float32)
    assert relative_error(reference, reference) == 0.0
    assert relative_error(np.array([1.0, -3.0], np.float32), reference) == 0.25
    assert relative_error(np.array([np.nan, -4.0], np.float32), reference) == float("inf")
    assert relative_error(reference[:1], reference) == float("inf")


def test_contenders_run_in_processes_of_their_own():
    options = Options(rounds=7, seconds=0.001, pause_s=0.0)
    contenders = [NumPyProduct(), NumPyProduct("other")]
    result = compare(WORKLOAD, contenders, 1, options)
    arrays = WORKLOAD.arrays()
    np.testing.assert_allclose(result.outputs["other"]["C"], arrays["A"] @ arrays["B"], rtol=1e-5)
    assert {name: len(times) for name, times in result.rounds.items()} == {OURS: 7, "other": 7}
    row = comparison_row("tiny", 1, WORKLOAD.flops, result)
    assert row["fastest_rival"] == "other"
    assert row["notes"][OURS] == "row-major"


def test_the_order_of_turns_is_drawn_anew_in_each_comparison(monkeypatch):
    taken: list[list[str]] = []

    def turn(self, run):
        taken[-1].append(run.args[0].name)
        return 1.0

    def start(contender, workload, threads):
        found = {"name": contender.name, "prepare_s": 0.0, "note": ""}
        return nullcontext(SimpleNamespace(**found, outputs=dict, details=dict))

    monkeypatch.setattr(Placement, "turn", turn)
    monkeypatch.setattr(Worker, "start", start)
    contenders = [NumPyProduct(), NumPyProduct("a"), NumPyProduct("b")]
    for _ in range(8):
        taken.append([])
        compare(WORKLOAD, contenders, 1, Options(rounds=9, pause_s=0.0))
    rounds = [order[k : k + 3] for order in taken for k in range(0, 27, 3)]
    assert all(sorted(order) == sorted([OURS, "a", "b"]) for order in rounds)
    assert len({tuple(order) for order in taken}) == len(taken)


def test_a_contender_that_cannot_be_prepared_is_an_error_with_its_cause():
    with pytest.raises(ContenderError, match="no such instruction"):
        Worker.start(NumPyProduct(fails=True), WORKLOAD, 1)


def test_row_names_rivals_and_ratios():
    rounds = {OURS: np.full(7, 1e-3), "a": np.full(7, 2e-3), "b": np.full(7, 3e-3)}
    row = comparison_row("x", 2, 4e6, Comparison(rounds, {}, {}, {}, {}))
    assert (row["ours_ms"], row["ratio"], row["fastest_rival"]) == (1.0, 2.0, "a")
    assert row["ratios"]["b"]["ratio"] == pytest.approx(3.0)
    assert row["ours_gflops"] == pytest.approx(4.0)


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda case: case.name)
def test_convolutions_are_those_of_resnet(case):
    assert case.out == case.size // case.stride
    assert case.arrays()["X"].shape == (1, case.size, case.size, case.channels)


def test_rounds_too_few_for_a_ratio_are_refused_before_anything_is_measured():
    assert round_count("7") == 7
    with pytest.raises(argparse.ArgumentTypeError, match="at least 7 rounds"):
        round_count("3")


class Probe:
    """Seconds of exchanges, one a call."""

    def __init__(self, *seconds: float) -> None:
        self._left = list(seconds)

    def time(self, seconds: float, least: int) -> list[float]:
        return [self._left.pop(0)]


@pytest.mark.parametrize(
    ("exchanges", "runs", "far"),
    [
        ((1.0, 1.1), 1, 0),  # near all the time
        ((1.0, 3.0, 3.0, 1.2, 1.0), 2, 0),  # far after the first run, then before the second
        ((1.0, *[3.0] * 4), 2, 1),  # far from then on
    ],
)
def test_a_turn_is_repeated_while_cores_are_far(exchanges, runs, far, monkeypatch):
    monkeypatch.setattr("benchmarks.placement.time.sleep", lambda _: None)
    placement, taken = Placement(Probe(*exchanges), patience_s=0.7), []
    found = placement.turn(lambda: taken.append(1) or float(len(taken)))
    assert (len(taken), found, placement.far_turns) == (runs, runs, far)


def test_threads_exchange_what_the_other_wrote():
    with Worker.start(Exchange(), WORKLOAD, 1) as probe:
        assert min(probe.time(0.001, 3)) > 0
        assert (probe.outputs()["b"] == 1.0).all()
