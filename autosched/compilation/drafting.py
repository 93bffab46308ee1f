"""What the draft model likes best of many tasks; other processes share in the work."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from autosched.compilation.side_processes import SideProcesses, answer_of
from autosched.search.unmeasured import Predicted, predicted
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec, Variant
from sketch.schedule.sketch import Sketch

if TYPE_CHECKING:
    from sketch.schedule.decision import DecisionId
    from sketch.schedule.steps import Step
    from sketch.target.target import Target

_DRAFTED_BY: Final = "autosched.compilation.drafting:answer"

_Request = tuple[tuple[Variant, ...], "Target", bool, tuple[str, ...]]
_Answer = list[tuple[str, tuple["Step", ...], dict["DecisionId", int], float]]


def all_predicted(
    tasks: Sequence[TaskSpec],
    quick: bool,
    others: Sequence[tuple[Variant, ...]],
    processes: SideProcesses | None,
) -> list[tuple[Predicted, ...]]:
    """``search.unmeasured.predicted`` of each task.

    Args:
        tasks: what is compiled.
        quick: the draft model sees few candidates of the reference.
        others: of each task, the forms that it may be computed in, other than as it is written.
        processes: begin with the largest tasks, while this one goes on with the smallest, if that
            seems to be worth it; None: there are none.
    """
    work = sorted(zip(tasks, others, strict=True), key=_size)
    coming: dict[TaskSpec, Future[bytes | None]] = {}
    found: dict[TaskSpec, tuple[Predicted, ...]] = {}
    began, done, total = time.perf_counter(), 0, sum(map(_size, work))
    for number, (task, own) in enumerate(work):
        answered = answer_of(coming.get(task))
        found[task] = predicted(task, quick, own) if answered is None else _drafts(task, answered)
        done += _size((task, own))
        left_s = (time.perf_counter() - began) * (total - done) / done
        if not coming and processes is not None and processes.worth(left_s):
            for other, its in reversed(work[number + 1 :]):  # the largest first
                if other.rules is None:  # others are known to this process only
                    coming[other] = processes.begin(_DRAFTED_BY, _request(other, quick, its))
    return [found[task] for task in tasks]


def _size(work: tuple[TaskSpec, tuple[Variant, ...]]) -> int:
    """Stages of all forms: what takes long."""
    task, others = work
    return sum(len(variant.dag.stages) for variant in (task.variants[0], *others))


def answer(request: bytes) -> bytes:
    """What another process answers."""
    asked: _Request = pickle.loads(request)
    variants, target, quick, names = asked
    task = TaskSpec(variants, target)
    found = predicted(task, quick, tuple(task.variant(name) for name in names))
    drafts: _Answer = [_plain(item) for item in found]
    return pickle.dumps(drafts, pickle.HIGHEST_PROTOCOL)


def _request(task: TaskSpec, quick: bool, others: tuple[Variant, ...]) -> _Request:
    return task.variants, task.target, quick, tuple(variant.name for variant in others)


def _plain(item: Predicted) -> tuple[str, tuple[Step, ...], dict[DecisionId, int], float]:
    """Without the program, which the asking process has."""
    sketch, values = item.candidate.sketch, item.candidate.values
    return sketch.variant, sketch.steps, {n: int(v) for n, v in values.items()}, item.share


def _drafts(task: TaskSpec, answered: bytes) -> tuple[Predicted, ...]:
    found: _Answer = pickle.loads(answered)
    drafts: list[Predicted] = []
    for variant, steps, values, share in found:
        sketch = Sketch(task.variant(variant).dag, steps, task.target, variant)
        drafts.append(Predicted(Candidate(sketch, values), share))
    return tuple(drafts)
