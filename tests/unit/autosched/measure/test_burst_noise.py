"""Further bursts go to candidates that may be the fastest: to many on a noisy machine only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autosched.measure.burst_noise import BurstNoise, joined
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


def test_who_is_near_the_fastest_is_undecided() -> None:
    results = [
        Timing((1.2, 1.2, 1.2)),
        Timing(WHOLE),
        Failure("run", "SIGSEGV", "crash"),
        Timing((1.0,)),  # dropped after its first run
        Timing((1.02, 1.02, 1.02)),
    ]
    assert noise_of(0.01).undecided(results) == [1, 4]
    assert noise_of(0.12).undecided(results) == [0, 1, 4]
    assert noise_of(0.12).undecided(results, bursts=4) == [1, 4]
    assert noise_of(0.01).undecided(results, best_s=0.5) == []
    assert BurstNoise().undecided([]) == []


def test_bursts_count_alike() -> None:
    first = Timing((1.5, 1.0, 1.1), build_s=0.1)
    further = Timing((9.0, 2.0, 2.1), error=1e-7, variant_errors=(1e-7,))
    assert joined([first, further]) == Timing(
        (1.0, 1.1, 2.0, 2.1), error=1e-7, variant_errors=(1e-7,), build_s=0.1
    )
    assert joined([first, Timing((9.0,)), further]).seconds == (1.1, 9.0, 2.1)
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
    assert asked == [0, 1, 2, 0, 2, 2], "after its second burst the lucky one is out of question"
    assert [result.median for result in results if isinstance(result, Timing)] == [1.25, 2.0, 1.05]
    assert measured(monkeypatch, [lucky, slow, steady], bursts=1)[1] == [0, 1, 2]


def test_a_kernel_that_crashes_in_a_further_burst_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crash = Failure("run", "SIGSEGV", "crash")
    results, _ = measured(monkeypatch, [[Timing(WHOLE), crash], [Timing(WHOLE)] * 3], bursts=3)
    assert results[0] == crash and isinstance(results[1], Timing)


def test_an_interrupt_in_a_further_burst_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Failure("run", "KeyboardInterrupt", "")
    results, asked = measured(monkeypatch, [[Timing(WHOLE)] * 2, [Timing(WHOLE), stop]], bursts=2)
    assert asked == [0, 1, 0, 1] and len(results) == 2
    assert all(isinstance(result, Timing) for result in results)
