"""Further bursts go to candidates that may be the fastest: to many on a noisy machine only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autosched.measure.burst_noise import BatchBursts, BurstNoise, joined
from autosched.measure.errors import BatchInterrupted
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.measure.runner import LocalRunner
from autosched.tasks.candidate import Candidate
from autosched.workloads.builtin import get
from codegen.host import host_target

WHOLE = (1.0, 1.0, 1.0)


def noise_of(deviation: float, pairs: int = 64) -> BurstNoise:
    rng, noise = np.random.default_rng(0), BurstNoise()
    for first, second in np.exp(deviation * rng.standard_normal((pairs, 2))):
        noise.note(Timing((first,)), Timing((second,)))
    return noise


@pytest.mark.parametrize("deviation", [0.005, 0.02, 0.12])
def test_the_noise_is_learned_from_pairs_of_bursts(deviation: float) -> None:
    assert noise_of(deviation).deviation == pytest.approx(deviation, rel=0.35)


def test_one_lucky_pair_does_not_make_a_machine_noisy() -> None:
    noise = noise_of(0.005)
    before = noise.deviation
    noise.note(Timing((1.0,)), Timing((9.0,)))
    assert noise.deviation == pytest.approx(before, rel=0.1)


def undecided(
    noise: BurstNoise, results: list[MeasureResult], best_s: float = math.inf
) -> list[int]:
    return BatchBursts(noise, results, best_s, most=3, dropped=1.5).undecided()


def test_who_is_near_the_fastest_is_undecided() -> None:
    results = [
        Timing((1.2, 1.2, 1.2)),
        Timing(WHOLE),
        Failure("run", "SIGSEGV", "crash"),
        Timing((1.9,)),  # dropped after its first run
        Timing((1.02, 1.02)),
    ]
    assert undecided(noise_of(0.01), results) == [1, 4]
    assert undecided(noise_of(0.12), results) == [0, 1, 4]
    assert undecided(noise_of(0.5), results) == [0, 1, 4]
    assert undecided(noise_of(0.01), results, best_s=0.5) == []
    assert undecided(BurstNoise(), []) == []
    assert undecided(BurstNoise(), [Failure("run", "SIGSEGV", "crash")]) == []


def test_who_is_alone_ahead_is_decided() -> None:
    alone: list[MeasureResult] = [Timing(WHOLE), Timing((2.0, 2.0, 2.0))]
    assert undecided(BurstNoise(), alone) == [] == undecided(BurstNoise(), alone, best_s=2.0)
    assert (
        undecided(BurstNoise(), alone, best_s=1.05) == [0] == undecided(BurstNoise(), alone, 0.97)
    )


def test_the_more_bursts_the_less_doubt() -> None:
    bursts = BatchBursts(noise_of(0.2), [Timing(WHOLE), Timing((1.2,) * 3)], math.inf, 30, 1.5)
    rounds = 0
    while bursts.undecided():
        assert bursts.undecided() == [0, 1]
        rounds += 1
        for number, seconds in enumerate((1.0, 1.2)):
            bursts.add(number, Timing((seconds,)))
    assert 1 < rounds < 10


def test_bursts_count_alike() -> None:
    first = Timing((1.5, 1.0, 1.1), build_s=0.1)
    further = Timing((9.0, 2.0, 2.1), error=1e-7, variant_errors=(1e-7,))
    assert joined([first, further]) == Timing(
        (1.1, 2.1), error=1e-7, variant_errors=(1e-7,), build_s=0.1
    )
    assert joined([first, Timing((9.0,)), further]).median == 2.1
    assert joined([first]) == first


def measured(
    monkeypatch: pytest.MonkeyPatch, answers: Sequence[Sequence[MeasureResult]], bursts: int
) -> tuple[list[MeasureResult], list[int]]:
    """Results of a batch whose candidates answer in this order, and who was asked."""
    task = get("GMM").task(1, 8, 8, 8, target=host_target(1))
    one = task.draft_candidate()
    batch = [replace(one, predicted=float(n)) for n in range(len(answers))]
    left, asked = [list(own) for own in answers], list[int]()

    def measure(state: object, candidate: Candidate, kernel: bytes, best: float) -> MeasureResult:
        assert candidate.predicted is not None
        asked.append(int(candidate.predicted))
        answer = left[asked[-1]].pop(0)
        if isinstance(answer, Failure) and answer.kind == "KeyboardInterrupt":
            raise KeyboardInterrupt
        return answer

    with LocalRunner(task.target, MeasureOptions(check="none", bursts=bursts)) as runner:
        monkeypatch.setattr(runner._timer, "measure", measure)
        monkeypatch.setattr(runner._timer, "prepare", lambda *_: None)
        try:
            return runner.measure(task, batch), asked
        except BatchInterrupted as interrupt:
            return list(interrupt.results), asked


def test_bursts_of_a_batch_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    lucky = [Timing((1.0, 0.99, 1.0)), Timing((1.5, 1.5, 1.5)), Timing((1.5, 1.5, 1.5))]
    steady = [Timing((1.05, 1.05, 1.05))] * 3
    slow = [Timing((2.0, 2.0, 2.0))]
    results, asked = measured(monkeypatch, [lucky, slow, steady], bursts=3)
    assert asked == [0, 1, 2, 0, 2], "after its second burst the lucky one is out of question"
    assert [result.median for result in results if isinstance(result, Timing)] == [1.25, 2.0, 1.05]
    assert measured(monkeypatch, [lucky, slow, steady], bursts=1)[1] == [0, 1, 2]


def test_failures_of_further_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash is the kernel's; a process that was killed from outside says nothing of it."""
    crash, killed = Failure("run", "SIGSEGV", "crash"), Failure("run", "SIGKILL", "killed")
    for failure, left in ((crash, crash), (killed, Timing(WHOLE))):
        own = [Timing(WHOLE), failure, failure]
        results, _ = measured(monkeypatch, [own, [Timing((1.01,) * 3)] * 3], bursts=3)
        assert isinstance(results[0], type(left)) and isinstance(results[1], Timing)


def test_what_was_built_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    results, _ = measured(monkeypatch, [[Timing(WHOLE)] * 3, [Timing(WHOLE)] * 3], bursts=3)
    for result in results:
        assert isinstance(result, Timing) and result.build_s is not None
        assert len(result.seconds) == 3


def test_an_interrupt_in_a_further_burst_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Failure("run", "KeyboardInterrupt", "")
    results, asked = measured(monkeypatch, [[Timing(WHOLE)] * 2, [Timing(WHOLE), stop]], bursts=2)
    assert asked == [0, 1, 0, 1] and len(results) == 2
    assert all(isinstance(result, Timing) for result in results)
