"""The winner of a re-measurement: rounds are pairs, and drift wins nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autosched.measure.result import Failure, Timing
from autosched.records.best import rank
from autosched.records.paired import clearly_faster, winner
from autosched.records.record import Record, record_of
from autosched.tasks.candidate import Candidate
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag

ROUNDS = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=12)
FAILED = Failure("run", "SIGSEGV", "crashed")


def test_five_rounds_must_all_be_won_and_fourteen_of_twenty() -> None:
    slow = [1.0] * 20
    assert clearly_faster([0.9] * 5, slow)
    assert not clearly_faster([0.9] * 4 + [1.1], slow)
    assert clearly_faster([0.9] * 14 + [1.1] * 6, slow)
    assert not clearly_faster([0.9] * 13 + [1.1] * 7, slow)
    assert not clearly_faster([0.9], slow)  # one round proves nothing
    assert not clearly_faster(slow, slow) and not clearly_faster([], slow)


@given(base=ROUNDS, drift=ROUNDS)
def test_drift_alone_swaps_no_winner(base: list[float], drift: list[float]) -> None:
    """Equal candidates on a machine that is slower or faster in every round."""
    rounds = tuple(a * b for a, b in zip(base, drift, strict=False))
    assert winner([Timing(rounds), Timing(rounds), Timing(rounds)]) == 0


@given(first=ROUNDS, second=ROUNDS, drift=st.lists(st.floats(0.5, 2.0), min_size=12, max_size=12))
def test_the_winner_does_not_depend_on_drift(
    first: list[float], second: list[float], drift: list[float]
) -> None:
    def times(values: list[float], factors: list[float]) -> Timing:
        # steps of an eighth: ties stay ties when they are multiplied
        return Timing(tuple(round(8 * v) * f for v, f in zip(values, factors, strict=False)))

    count = min(len(first), len(second))
    still = [1.0] * 12
    pairs = [[times(v[:count], f) for v in (first, second)] for f in (still, drift)]
    assert winner(pairs[0]) == winner(pairs[1])


def test_a_lower_median_is_not_enough() -> None:
    holder = Timing((1.0, 1.0, 1.0, 1.0, 1.0))
    lucky = Timing((0.9, 0.9, 0.9, 1.1, 1.1))
    faster = Timing((0.95,) * 5)
    assert lucky.median < faster.median < holder.median
    assert winner([holder, lucky]) == 0
    assert winner([holder, lucky, faster]) == 2
    assert winner([FAILED, holder, lucky]) == 1
    assert winner([FAILED]) is None and winner([]) is None


def candidates(count: int) -> list[Candidate]:
    sketch = generate(matmul_dag(), SMALL)[0]
    rows = sample(sketch, 64, np.random.default_rng(0))
    unique = {str(rows.row(n)): rows.row(n) for n in range(rows.count)}
    return [Candidate(sketch, row) for row in list(unique.values())[:count]]


def record(
    candidate: Candidate, seconds: float | tuple[float, ...], phase: str, time: float
) -> Record:
    times = seconds if isinstance(seconds, tuple) else (seconds,) * 5
    return record_of(
        "task", candidate, SMALL, Timing(times), phase=phase, seed=0, versions={}, time=time
    )


def order(records: list[Record], among: list[Candidate]) -> list[int]:
    keys = [record(c, 1.0, "trial", 0.0).candidate_key for c in among]
    return [keys.index(found.candidate_key) for _, found in rank(records)]


def test_the_log_remembers_who_won() -> None:
    a, b, c = found = candidates(3)
    log = [record(a, 1.0, "trial", 1.0), record(b, 1.01, "trial", 1.0)]
    log += [record(a, 1.2, "final", 2.0), record(b, (1.1, 1.1, 1.1, 1.3, 1.3), "final", 2.0)]
    assert order(log, found) == [0, 1]  # b has the lower median, but did not win clearly
    log += [record(c, 0.5, "trial", 3.0)]
    assert order(log, found) == [2, 0, 1]  # a new one that is much faster


def test_a_burst_on_a_quicker_machine_says_nothing_against_the_winner() -> None:
    a, b, c = found = candidates(3)
    log = [record(c, 1.1, "trial", 1.0), record(a, 1.0, "trial", 1.0)]
    log += [record(b, 1.8, "trial", 2.0)]  # it has become 1.8 times slower
    log += [record(a, 1.8, "final", 3.0), record(b, 1.9, "final", 3.0)]
    assert order(log, found) == [0, 2, 1]
    log += [record(c, 1.1, "trial", 4.0)]  # as quick as it was, and seen again
    assert order(log, found) == [2, 0, 1]


def test_an_earlier_re_measurement_on_a_faster_machine_wins_nothing() -> None:
    a, b, c = found = candidates(3)
    log = [record(a, 1.0, "final", 1.0), record(c, 1.05, "final", 1.0)]
    assert order(log, found) == [0, 2]
    log += [record(a, 1.2, "final", 2.0), record(b, 1.25, "final", 2.0)]  # 20 % slower now
    assert order(log, found) == [0, 1, 2]


def test_what_was_left_out_of_a_re_measurement_is_not_hidden_by_it() -> None:
    """As a variant whose error is beyond the budget of one run, but not of who asks now."""
    a, b, c = found = candidates(3)
    log = [record(a, 1.0, "trial", 1.0), record(b, 1.1, "trial", 1.0), record(c, 0.3, "trial", 1.0)]
    log += [record(a, 1.0, "final", 2.0), record(b, 1.1, "final", 2.0)]
    assert order(log, found) == [2, 0, 1]


def test_one_that_was_held_up_does_not_make_another_faster() -> None:
    """In the first re-measurement two of three were held up; one of them is in the second, too."""
    held, other, quiet, new = found = candidates(4)
    log = [record(held, 87.2, "final", 1.0), record(other, 86.0, "final", 1.0)]
    log += [record(quiet, 47.3, "final", 1.0)]
    log += [record(held, 42.2, "final", 2.0), record(new, 41.9, "final", 2.0)]
    assert min(seconds for seconds, _ in rank(log)) == 41.9
    assert order(log, found)[0] == 3


def test_drift_is_divided_out() -> None:
    a, b, c = found = candidates(3)
    log = [record(a, 80.0, "final", 1.0), record(b, 44.0, "final", 1.0)]
    log += [record(c, 96.0, "final", 1.0)]
    log += [record(a, 40.0, "final", 2.0), record(b, 22.0, "final", 2.0)]
    assert [seconds for seconds, _ in rank(log)] == [22.0, 40.0, 48.0]
    assert order(log, found) == [1, 0, 2]
