"""A task scheduler whose turns are answered from curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autosched.tuning.objectives import Objective, Usage, weighted_sum
from autosched.tuning.options import TuneOptions
from autosched.tuning.scheduler import TaskScheduler
from autosched.tuning.task_progress import TaskInfo, Turn

Curve = Callable[[int], float]


def falling(start: float, floor: float, half: float = 20.0) -> Curve:
    """Best seconds after so many trials."""
    return lambda trials: floor + (start - floor) * 0.5 ** (trials / half)


class Simulation:
    """Turns are answered from one curve per task; every trial takes ``trial_s[n]`` seconds."""

    def __init__(
        self,
        curves: Sequence[Curve],
        options: TuneOptions,
        weights: Sequence[float] | None = None,
        trial_s: Sequence[float] | None = None,
        kinds: Sequence[object] | None = None,
        flops: Sequence[float] | None = None,
        objective: Objective = weighted_sum,
        usage: Usage | None = None,
        reserve_s: float = 0.0,
    ) -> None:
        count = len(curves)
        self.curves, self.now = curves, 0.0
        self.trial_s = trial_s or [0.0] * count
        infos = [
            TaskInfo(
                weights[n] if weights else 1.0, flops[n] if flops else 1e6, min(1e3, curves[n](0)),
                kinds[n] if kinds else None,
            )
            for n in range(count)
        ]  # fmt: skip
        self.scheduler = TaskScheduler(
            infos, options, objective, lambda: self.now, reserve_s, usage=usage
        )
        self.turns: list[Turn] = []

    def run(self, limit: int = 10_000) -> list[int]:
        """Trials of every task at the end."""
        while len(self.turns) < limit:
            turn = self.scheduler.next_turn()
            if turn is None:
                break
            self.answer(turn)
        return [task.trials for task in self.scheduler.tasks]

    def answer(self, turn: Turn) -> None:
        self.turns.append(turn)
        seconds = turn.trials * self.trial_s[turn.task]
        self.now += seconds
        best = self.curves[turn.task](self.scheduler.tasks[turn.task].trials + turn.trials)
        failed = turn.trials if math.isinf(best) else 0
        self.scheduler.record(turn.task, turn.trials, failed, best, seconds)
