import math
from dataclasses import replace

import pytest

from autosched.measure.options import MeasureOptions
from autosched.measure.sampling import burst, inner_runs

USUAL = MeasureOptions(samples=10, few_samples=5, min_sample_s=200e-6, burst_s=0.5, enough_s=1.0)
# However well samples agree.
OPTIONS = replace(USUAL, few_samples=10)


class Clock:
    """A kernel that takes given times, then always the last; keeps how often it ran per sample."""

    def __init__(self, *seconds):
        self.seconds, self.runs = list(seconds), []

    def __call__(self, runs):
        self.runs.append(runs)
        return self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


def test_a_good_candidate_gets_all_samples():
    clock = Clock(1.2e-3, 1.1e-3, 1e-3)
    assert burst(clock, 1e-3, OPTIONS) == (1.2e-3, 1.1e-3, *[1e-3] * 8)
    assert clock.runs == [1] * 10


def test_without_a_best_nothing_is_dropped():
    assert len(burst(Clock(1e-3), math.inf, OPTIONS)) == 10


def test_a_slow_first_run_is_enough_above_twice_the_best():
    clock = Clock(24e-3)
    assert burst(clock, 1e-3, OPTIONS) == (24e-3,) and clock.runs == [1]


def test_an_interrupted_first_run_is_repeated():
    assert burst(Clock(9e-3, 1e-3), 1e-3, OPTIONS) == (1e-3,) * 10
    assert burst(Clock(9e-3, 2.2e-3), 1e-3, OPTIONS) == (2.2e-3,)


def test_waking_threads_do_not_make_a_short_kernel_slow():
    assert len(burst(Clock(95e-6, 22e-6), 20e-6, OPTIONS)) == 10


def test_two_runs_are_enough_above_one_and_a_half():
    assert burst(Clock(1.9e-3, 1.6e-3), 1e-3, OPTIONS) == (1.9e-3, 1.6e-3)
    assert len(burst(Clock(1.9e-3, 1.4e-3), 1e-3, OPTIONS)) == 10


def test_few_samples_of_a_long_kernel_are_enough():
    options = replace(USUAL, few_samples=3, enough_s=8e-3)
    uneven = [2.9e-3, 2.6e-3] * 9
    assert len(burst(Clock(*uneven), 2.6e-3, options)) == 3
    assert len(burst(Clock(*[s / 2 for s in uneven]), 1.3e-3, options)) == 6
    assert len(burst(Clock(*uneven), 2.6e-3, replace(options, enough_s=1.0))) == 10


@pytest.mark.parametrize(
    ("later", "best_s", "taken"),
    [
        ([1.01e-3], 1e-3, 5),  # they agree
        ([1e-3, 1.3e-3] * 5, 1e-3, 10),  # they do not
        ([1.3e-3, 1.2e-3] * 5, 1e-3, 5),  # nor do these, but none is near the best
        ([1e-3, 1.3e-3, 1.3e-3, 1.02e-3, 1.01e-3, 1.01e-3, 1e-3], 1e-3, 7),
    ],
)
def test_few_samples_are_enough_where_they_tell_the_rank(later, best_s, taken):
    assert len(burst(Clock(1.4e-3, *later), best_s, USUAL)) == taken
    assert len(burst(Clock(1.4e-3, *later), best_s, replace(USUAL, few_samples=99))) == 10


def test_short_runs_are_repeated_inside_a_sample():
    clock = Clock(40e-6, 20e-6)
    burst(clock, math.inf, replace(OPTIONS, warmup_s=0.0))
    assert clock.runs == [1, 5, *[10] * 8]


def test_short_kernels_are_judged_when_the_core_is_warm():
    """The first runs take three times as long as all later ones."""
    clock = Clock(*[45e-6] * 12, 15e-6)
    assert burst(clock, 15e-6, OPTIONS) == (45e-6, *[15e-6] * 9)
    assert burst(Clock(*[45e-6] * 12, 15e-6), 15e-6, replace(OPTIONS, warmup_s=0.0)) == (45e-6,) * 2


def test_long_runs_stop_at_the_burst_limit():
    assert len(burst(Clock(0.2), math.inf, OPTIONS)) == 3


@pytest.mark.parametrize("state", ["l2_cold", "dram_cold"])
def test_cold_caches_allow_one_run_a_sample(state):
    assert inner_runs(1e-6, MeasureOptions(cache_state=state)) == 1
    assert inner_runs(9e-6, MeasureOptions()) == 23
