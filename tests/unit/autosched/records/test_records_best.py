from dataclasses import replace

from autosched.measure.result import WRONG_RESULT, Failure, Timing
from autosched.records.best import (
    best,
    estimate,
    rank,
    seeds,
    select,
    target_warning,
)
from autosched.records.record import Record
from sketch.target.target import Target

HERE = Target("cpu", "generic", threads=2)
CRASH = Failure("run", "SIGSEGV", "")
WRONG = Failure("verify", WRONG_RESULT, "")


def record(tile, *seconds, result=None, target=HERE, task="t", phase="trial"):
    return Record(task, target, "direct", (), {"i": tile}, result or Timing(seconds), phase)


def test_the_fastest_median_wins():
    log = [record(1, 3.0, 1.0, 3.0), record(2, 2.0, 2.0), record(3, 4.0)]
    assert best(log, "t", HERE) is log[1]
    assert [seconds for seconds, _ in rank(log)] == [2.0, 3.0, 4.0]


def test_a_final_round_outweighs_bursts_and_the_last_one_counts():
    history = [record(1, 1.0), record(1, 5.0, phase="final"), record(1, 3.0, phase="final")]
    assert estimate([*history, record(1, 0.5)]) == 3.0


def test_a_lucky_burst_does_not_beat_what_was_looked_at_again():
    log = [record(1, 1.0), record(2, 1.1), record(3, 1.2)]
    finals = [record(1, 1.5, phase="final"), record(2, 1.54, phase="final")]
    assert rank([*log, *finals])[0] == (1.5, finals[0])
    better = record(4, 0.5)
    assert rank([*log, *finals, better])[0][1] is better


def test_a_machine_that_changed_leaves_later_bursts_as_they_are():
    log = [record(1, 1.0), record(2, 1.1)]
    finals = [record(1, 2.0, phase="final"), record(2, 2.2, phase="final")]
    later = replace(record(3, 1.9), time=2.0)
    before = [replace(each, time=1.0) for each in finals]
    assert rank([*log, *before, later])[0] == (1.9, later)
    assert rank([*log, *before, replace(later, time=0.5)])[0] == (2.0, before[0])


def test_a_wrong_result_disqualifies_for_good():
    log = [record(1, 1.0), record(1, result=WRONG), record(1, 1.0), record(2, 2.0)]
    assert best(log, "t", HERE) is log[3]


def test_a_crash_disqualifies_until_it_ran_again():
    assert estimate([record(1, 1.0), record(1, result=CRASH)]) is None
    assert estimate([record(1, result=CRASH), record(1, 1.0)]) == 1.0


def test_no_success_is_no_best():
    assert best([record(1, result=CRASH)], "t", HERE) is None
    assert best([], "t", HERE) is None
    assert best([record(1, 1.0)], "other task", HERE) is None


def test_ties_keep_the_order_of_the_log():
    log = [record(2, 1.0), record(1, 1.0)]
    assert best(log, "t", HERE) is log[0]


def test_cache_states_are_not_mixed():
    cold = Timing((0.5,), "dram_cold")
    log = [record(1, result=cold), record(2, 1.0)]
    assert best(log, "t", HERE, "warm") is log[1]
    assert best(log, "t", HERE, "dram_cold") is log[0]
    assert select([*log, record(3, result=CRASH)], "t", HERE, "warm")[1].result == CRASH


def test_other_machines_are_seeds_only():
    four, far = replace(HERE, threads=4), Target("cpu", "old")
    gpu = Target("cuda", "sm_90")
    log = [
        record(1, 9.0, target=four), record(2, 8.0, target=four), record(3, 1.0, target=far),
        record(4, 1.0), record(5, 1.0, target=gpu), record(6, 1.0, target=far, task="u"),
    ]  # fmt: skip
    assert best(log, "t", HERE) is log[3]
    assert [r.decisions["i"] for r in seeds(log, "t", HERE)] == [2, 3, 1]
    assert [r.decisions["i"] for r in seeds(log, "t", HERE, limit=1)] == [2]


def test_a_foreign_log_is_described_in_a_short_line():
    four, eight = replace(HERE, threads=4), replace(HERE, threads=8)
    log = [record(1, 1.0, target=eight), *[record(1, 1.0, target=four)] * 2]
    assert target_warning(log, HERE) == (
        "3 records are for another number of threads, the nearest are used "
        "(2 with threads 4, not 2)"
    )
    assert target_warning([*log, record(1, 1.0)], HERE) == ""
    assert target_warning([], HERE) == ""
    part = target_warning([*log, record(1, 1.0), record(1, 1.0, target=four, task="u")], HERE)
    assert part == "1 record is for another number of threads, it is used (threads 4, not 2)"
    wide = replace(HERE, vector_bytes=64)
    both = [*log, record(1, 1.0, target=wide)]
    assert target_warning(both, HERE).startswith("4 records are of other machines, ")
    assert target_warning([record(1, 1.0, target=wide)], HERE).startswith("1 record is of another ")
    assert "it cannot be used" in target_warning([record(1, 1.0, target=wide)], HERE)
    assert "none can be used" in target_warning([record(1, 1.0, target=wide)] * 2, HERE)
