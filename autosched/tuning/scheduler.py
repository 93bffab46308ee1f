"""Which task to measure next: Ansor's gradient over weighted tasks (OSDI'20, section 6).

For task ``i`` with best time ``g_i`` after ``t_i`` trials, one more trial is expected to gain

    gain_i = -df/dg_i * (alpha * back_i + (1 - alpha) * forward_i)

``back_i`` is what its last batches gained per trial; ``forward_i`` the optimistic guess that time
goes on falling like ``1 / t_i``, or down to what a similar task has reached.  With a time budget
the gain is taken per second: trials of different tasks cost different times.

When what is left of the budget is not worth it (``remaining``), the budget is cut: the last part of
it, the finish, follows at once and keeps its share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import numpy as np

from autosched.tuning.objectives import Objective, Usage, latencies, value_of, weighted_sum
from autosched.tuning.options import TuneOptions
from autosched.tuning.remaining import History, fall_of_doubling, worth_of
from autosched.tuning.task_progress import TaskInfo, TaskProgress, Turn
from autosched.tuning.trial_time import mean_trial_s, rest_s, trial_s

# Relative step of a numeric derivative.
_STEP: Final = 1e-4
# Turns on their way at any time where machines want many trials: few, as each costs a choice;
# and more than one: while one is chosen, another is measured.
_TURNS_IN_FLIGHT: Final = 2


class TaskScheduler:
    """Hands out turns until the budget is spent or all tasks have stopped.

    Args:
        tasks: what is known of them.
        options: budgets, strategy, early stopping.
        objective: of the best times; see ``objectives``.
        clock: seconds since the run began; what counts against ``options.budget_s``.
        reserve_s: part of the time budget that the caller needs after the last turn.
        usage: how often each task occurs in each network; None: all are of one network, by weight.
        in_flight: trials that are to be on their way at any time; 0: of one turn, and of another.
    """

    def __init__(
        self,
        tasks: Sequence[TaskInfo],
        options: TuneOptions,
        objective: Objective = weighted_sum,
        clock: Callable[[], float] = lambda: 0.0,
        reserve_s: float = 0.0,
        usage: Usage | None = None,
        in_flight: int = 0,
    ) -> None:
        self.tasks = [TaskProgress(info) for info in tasks]
        self.stopped, self._in_flight = "", in_flight
        self._options, self._objective, self._clock = options, objective, clock
        self._constants = options.scheduler
        self._usage = usage or [[info.weight for info in tasks]]
        self._budget_s = math.inf
        if options.budget_s is not None:
            least_s = self._constants.search_share * options.budget_s
            self._budget_s = max(least_s, options.budget_s - reserve_s)
        self._limit_s, self._limit, self.enough = self._budget_s, options.trials, ""
        self._improved_to = math.inf  # the objective after the last real improvement
        self._improved_at = 0
        self._last = -1
        self._pending = [0] * len(self.tasks)
        self._known: tuple[list[float], list[float]] = ([], [])  # seconds, slopes there

    @property
    def trials(self) -> int:
        """Results of all tasks, earlier runs included."""
        return sum(task.trials for task in self.tasks)

    def objective(self) -> float:
        """Of the best times so far, with estimates for tasks that have none."""
        return self._value([task.known_s for task in self.tasks])

    def restore(
        self, index: int, trials: int, failed: int, best_s: float, history: History = ()
    ) -> None:
        """Count the results of an earlier run; where all failed, the cause may be gone by now.

        Args:
            index: of the task.
            trials: results.
            failed: results that are failures.
            best_s: the task's best time, in seconds.
            history: how it came to it.
        """
        task = self.tasks[index]
        task.restore(trials, failed, best_s, history)
        task.batches = math.ceil(trials / max(1, self._batch()))
        self._stop_if_enough(task)
        self._improved_at = self.trials

    def restart(self, index: int, trials: int, best_s: float) -> None:
        """Go on with a task, see ``TaskProgress.restart``; a budget that was cut is whole again."""
        self.tasks[index].restart(trials, best_s)
        self._limit_s, self._limit, self.enough = self._budget_s, self._options.trials, ""
        self._improved_to, self._improved_at = math.inf, self.trials

    def scale(self, index: int, factor: float) -> None:
        """Multiply all times of a task."""
        self.tasks[index].scale(factor)
        self._improved_to = math.inf

    def next_turn(self, busy: Sequence[Turn] = (), spent_s: float = 0.0) -> Turn | None:
        """The next turn, or None; ``stopped`` then says why.

        ``busy``: turns whose results are not in yet; the oldest was begun ``spent_s`` seconds ago.
        The next one is of a task that has none of them; where there is no such task and
        ``in_flight`` asks for more, of one that has some; else, or where they take all the time
        that is left, None, and nothing stopped.
        """
        self._pending = [sum(t.trials for t in busy if t.task == n) for n in range(len(self.tasks))]
        self._cut_budget()
        self.stopped = self._why_stop()
        if self.stopped or not self._free():
            return None
        if cold := self.cold_tasks():
            return Turn(cold[0], min(self._warm_up(cold[0]), self._trials_left_of(cold[0])))
        in_turn = self._options.strategy == "round-robin"
        index = self._next_in_line() if in_turn else self._steepest()
        left_s = self.time_left_s() - rest_s(self._pending, spent_s, self.tasks, self._constants)
        if busy and left_s <= 0:
            return None
        self._last = index
        return Turn(index, self._fitting(index, left_s), self._is_finish(index))

    def record(
        self, index: int, trials: int, failed: int, best_s: float, seconds: float = 0.0
    ) -> None:
        """What became of a turn: results, failures among them, the task's best time since.

        Args:
            index: of the task.
            trials: results.
            failed: results that are failures.
            best_s: the task's best time, in seconds.
            seconds: that the turn took.
        """
        task = self.tasks[index]
        before = task.best_s
        task.trials += trials
        task.failed += failed
        task.batches += 1
        task.seconds += seconds
        task.timed_trials += trials
        task.best_s = min(before, best_s)
        if math.isfinite(task.best_s):
            task.history.append((task.counted, task.best_s))
        task.note_improvement(self._options.improvement)
        self._stop_if_enough(task)
        self._stop_if_vain(task)
        value = self.objective()
        if math.isinf(before) and math.isfinite(task.best_s):
            self._improved_to = math.inf  # an estimate was replaced: the sums do not compare
        least = self._options.improvement * abs(self._improved_to)
        if math.isinf(self._improved_to) or self._improved_to - value > least:
            self._improved_at, self._improved_to = self.trials, value

    def cold_tasks(self) -> list[int]:
        """Tasks that were never measured, or whose batches all failed so far, the next one first:
        the heaviest.
        """
        cold = [n for n in self._free() if math.isinf(self.tasks[n].best_s)]
        return sorted(cold, key=lambda n: (self.tasks[n].batches, -self._heaviness(n)))

    def stop_task(self, index: int, reason: str) -> None:
        """Give a task no more turns."""
        self.tasks[index].stopped = reason

    def trial_s(self, index: int) -> float:
        """Seconds that a trial of a task takes."""
        return trial_s(self.tasks[index], self.tasks, self._constants)

    def gains(self) -> list[float]:
        """Expected fall of the objective per trial (per second with a time budget) of each task."""
        speeds = self._speeds()
        return [self._gain(n, speeds) for n in range(len(self.tasks))]

    def done_share(self) -> float:
        """Trials made, earlier runs' included, over those that the whole budget allows."""
        return self.trials / self._total_trials()

    def time_left_s(self) -> float:
        """Seconds before the last turn has to end; infinite without a time budget."""
        return self._limit_s - self._clock()

    def _value(self, seconds: Sequence[float]) -> float:
        return value_of(self._objective, latencies(self._usage, seconds))

    def _why_stop(self) -> str:
        options = self._options
        if self._trials_left() <= 0:
            return self.enough or "trials"
        if self._clock() >= self._limit_s:
            return self.enough or "time"
        if not any(self._open(n) for n in range(len(self.tasks))):
            made = any(task.stopped == "trials" for task in self.tasks)
            return "trials" if made else "nothing left to improve"
        patience = options.early_stop_trials
        measured = all(math.isfinite(task.best_s) or task.stopped for task in self.tasks)
        if patience is not None and measured and self.trials - self._improved_at >= patience:
            return "no improvement"
        return ""

    def _cut_budget(self) -> None:
        """Cut the budget where what is left of the wide search is not worth it."""
        below, share = self._options.worth_stopping, self._options.finish_share
        if self.enough or not below or share == 1 or self.expected_gain() >= below:
            return
        self.enough = f"what is left is worth < {100 * below:g} %"
        if self._limit is not None:
            self._limit = min(self._limit, math.ceil(self.trials / (1.0 - share)))
        if math.isfinite(self._limit_s):
            self._limit_s = min(self._limit_s, self._clock() / (1.0 - share))

    def expected_gain(self) -> float:
        """Relative fall of the objective to expect of the budget before the finish.

        Infinite where it is not known: while some task has no time yet, in the finish, and where
        the objective is zero.
        """
        tasks, left = self.tasks, self._search_left()
        unknown = any(math.isinf(task.best_s) and not task.stopped for task in tasks)
        if unknown or not 0 < left < math.inf:
            return math.inf
        value, slopes = abs(self.objective()), self._slopes()
        if value == 0.0:
            return math.inf
        falls = [
            0.0 if task.stopped else
            slope * task.best_s / value * fall_of_doubling(
                (*task.earlier, *task.history), task.counted, self._constants
            )
            for task, slope in zip(tasks, slopes, strict=True)
        ]  # fmt: skip
        return worth_of(falls, [task.counted for task in tasks], left)

    def _search_left(self) -> float:
        """Trials before the finish; infinite without a limit, or where their time is not known."""
        share = 1.0 - self._options.finish_share
        limits = [math.inf if self._limit is None else share * self._limit - self.trials]
        mean_s = mean_trial_s(self.tasks)
        if math.isfinite(self._limit_s) and mean_s > 0:
            limits.append((share * self._limit_s - self._clock()) / mean_s)
        return min(limits)

    def _trials_left(self) -> int:
        """Trials before the limit on trials."""
        limit = self._limit
        return 2**31 if limit is None else limit - self.trials - sum(self._pending)

    def _trials_left_of(self, index: int) -> int:
        """Trials before the limits on those of a task, and of all."""
        most, left = self._options.task_trials, self._trials_left()
        known = self.tasks[index].trials + self._pending[index]
        return left if most is None else min(left, most - known)

    def _free(self) -> list[int]:
        """Tasks that may have the next turn."""
        most = self._options.task_trials or math.inf
        free = [
            n
            for n, task in enumerate(self.tasks)
            if self._open(n) and task.trials + self._pending[n] < most
        ]
        idle = [n for n in free if not self._pending[n]]
        return free if self._in_flight and not idle else idle

    def _open(self, index: int) -> bool:
        """Whether trials of a task may improve the objective, or are needed to know."""
        task = self.tasks[index]
        return not task.stopped and (math.isinf(task.best_s) or self._slopes()[index] > 0.0)

    def _total_trials(self) -> float:
        """Trials that the whole budget allows, roughly."""
        limits = [float(self._limit or math.inf)]
        if math.isfinite(self._limit_s):
            limits.append(self._limit_s / (mean_trial_s(self.tasks) or self._constants.trial_s))
        return min(limits)

    def _batch(self, trials: int = 2**31) -> int:
        """So small that every task gets some rounds on average.

        ``trials``: of the task so far; young tasks get small batches, as they learn most from each.
        """
        share = self._total_trials() / (len(self.tasks) * self._constants.rounds)
        young = max(self._constants.young_batch, trials // 2)
        wanted = max(self._constants.least_batch, min(share, young))
        small = int(min(self._options.search.batch_trials, wanted))
        return max(small, int(min(share, self._in_flight / _TURNS_IN_FLIGHT)))

    def _fitting(self, index: int, left_s: float) -> int:
        """A batch that ends within both limits; ``left_s``: seconds when it begins."""
        left = min(float(self._trials_left_of(index)), left_s / self.trial_s(index))
        return max(1, int(min(float(self._batch(self.tasks[index].counted)), left)))

    def _heaviness(self, index: int) -> float:
        info = self.tasks[index].info
        return info.weight * info.estimate_s

    def _warm_up(self, index: int) -> int:
        """First batch: a part of the warm-up goes to all tasks alike, the rest by weighted time."""
        count = len(self.tasks)
        total = sum(self._heaviness(n) for n in range(count))
        even = self._constants.even_share
        share = even / count + (1.0 - even) * self._heaviness(index) / total
        warm_up = min(self._total_trials() * self._constants.warm_up_share, count * self._batch())
        batch = self._batch(self.tasks[index].counted)
        return max(min(2, batch), min(batch, round(warm_up * share)))

    def _is_finish(self, index: int) -> bool:
        """Whether the budget has come to its last part."""
        share = self._options.finish_share
        if share == 0 or not math.isfinite(self.tasks[index].best_s):
            return False
        limit = self._limit
        by_trials = limit is not None and self.trials >= (1.0 - share) * limit
        by_time = math.isfinite(self._limit_s) and self._clock() >= (1.0 - share) * self._limit_s
        return by_trials or by_time

    def _next_in_line(self) -> int:
        count = len(self.tasks)
        order = [(self._last + step) % count for step in range(1, count + 1)]
        return next(n for n in order if n in self._free())

    def _steepest(self) -> int:
        gains = self.gains()
        return max(
            self._free(), key=lambda n: (float(np.float32(gains[n])), -self.tasks[n].trials, -n)
        )

    def _gain(self, index: int, speeds: dict[Hashable, float]) -> float:
        task = self.tasks[index]
        if task.stopped:
            return 0.0
        slope = self._slopes()[index]
        alpha, recent = self._constants.alpha, task.recent_gain(self._constants.window)
        gain = alpha * recent + (1.0 - alpha) * self._promise(task, speeds)
        per_second = self._options.budget_s is not None
        gain *= (task.counted + 1) / (task.counted + 1 + self._pending[index])  # those come first
        return slope * gain / (self.trial_s(index) if per_second else 1.0)

    def _slopes(self) -> list[float]:
        """Numeric ``df/dg_i`` of every task by a relative step."""
        seconds = [task.known_s for task in self.tasks]
        if self._known[0] != seconds:
            value = self._value(seconds)
            self._known = seconds, [self._slope(seconds, n, value) for n in range(len(seconds))]
        return self._known[1]

    def _slope(self, seconds: list[float], index: int, value: float) -> float:
        step = _STEP * seconds[index]
        lower = [s - step if n == index else s for n, s in enumerate(seconds)]
        return max(0.0, (value - self._value(lower)) / step)

    def _promise(self, task: TaskProgress, speeds: dict[Hashable, float]) -> float:
        """Optimistic gain per trial."""
        seconds = task.known_s
        gain = seconds / max(1, task.counted)
        speed = speeds.get(task.info.kind)
        if speed is not None and task.info.flops > 0:
            reachable = self._constants.beta * task.info.flops / speed
            most = self._constants.kind_trust * gain
            gain = max(gain, min((seconds - reachable) / self._batch(), most))
        return gain

    def _speeds(self) -> dict[Hashable, float]:
        """Best FLOP/s of each kind that more than one task with operations has."""
        groups: dict[Hashable, list[float]] = {}
        for task in self.tasks:
            known = math.isfinite(task.best_s) and task.info.flops > 0
            if known and task.info.kind is not None:
                groups.setdefault(task.info.kind, []).append(task.info.flops / task.best_s)
        return {kind: max(speeds) for kind, speeds in groups.items() if len(speeds) > 1}

    def _stop_if_enough(self, task: TaskProgress) -> None:
        most = self._options.task_trials
        if most is not None and task.trials >= most:
            task.stopped = "trials"

    def _stop_if_vain(self, task: TaskProgress) -> None:
        """Where everything fails, or nothing improves."""
        patience = self._options.task_early_stop_trials
        if math.isinf(task.best_s):
            constants = self._constants
            if task.batches >= constants.failed_batches and task.trials >= constants.failed_trials:
                task.stopped = "nothing runs"
        elif patience is not None and task.trials - task.improved_at >= patience:
            task.stopped = "no improvement"
