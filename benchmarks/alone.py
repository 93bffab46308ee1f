"""What the kernels of a network take alone, next to the network itself: both in turns.

What a core lends changes by a third within seconds.  So the network runs before and after each
sample of a kernel, and the sample counts as a share of what the network took then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median
from time import perf_counter, sleep
from typing import Final

from autosched.compilation.network import cache_state_of, extract_checked, network_tasks
from autosched.graph.ir import Network as ZooNetwork
from autosched.measure.options import MeasureOptions
from autosched.measure.result import CacheState, Timing
from autosched.measure.runner import LocalRunner
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.runtime.module import Module
from autosched.search.recall import usable
from autosched.search.space import draft_candidate
from autosched.tasks.candidate import Candidate
from autosched.tasks.rough_seconds import rough_seconds
from autosched.tasks.spec import TaskSpec
from benchmarks.ours import OursNetwork
from benchmarks.worker import ContenderError, Worker
from benchmarks.workloads import Network

# Seconds of all turns of a task, and least and most of them.
_TASK_S: Final = 1.5
_LEAST: Final = 2
_MOST: Final = 9
# Seconds between turns, in which spinning threads fall asleep, and of a turn, after a fifth of it
# in which cores wake up.
_PAUSE_S: Final = 0.05
_TURN_S: Final = 0.02
# Runs of a round of the runner, about, and most rounds of a turn.
_RUNS: Final = 6
_ROUNDS: Final = 100


def sum_of_tasks(module: Module, path: Path, network: ZooNetwork, log: Path) -> float:
    """What all kernels of a network take, each alone, as a share of what the network takes.

    A task may have to do with a slower variant, for the sake of the network's error.

    Args:
        module: of the network.
        path: the file that it is saved in.
        network: that was compiled.
        log: with the records that were compiled.

    Raises:
        ContenderError: the network, or a kernel of it, could not be run.
    """
    records, target = RecordLog(log).read().records, module.target
    extraction = extract_checked(network, target)
    state = cache_state_of(extraction, target)
    measure = MeasureOptions(cache_state=state, inputs="aligned", paced=False)
    uses = Counter(step.info.task for step in module.program.steps)
    variants = {
        step.info.task: step.info.algorithm.partition(", ")[0] for step in module.program.steps
    }
    total = 0.0
    with (
        Worker.start(OursNetwork(str(path)), _workload(network), target.threads) as worker,
        LocalRunner(target, measure) as runner,
    ):
        tasks = network_tasks(extraction, target)
        for number, task in enumerate(tasks, 1):
            print(f"alone, in turns with the network: {number} of {len(tasks)} tasks", flush=True)
            candidate = _candidate(task, records, variants.get(task.key, ""), state)
            runner.collect(runner.submit(task, [candidate]))  # so that it is compiled once
            seconds = partial(_seconds, runner, task, candidate)
            total += uses[task.key] * share(seconds, partial(_turn, worker))
    return total


def share(kernel: Callable[[], float], network: Callable[[], float]) -> float:
    """The time of a kernel over that of a network, both in turns.

    Args:
        kernel: seconds of a sample.
        network: seconds of a run.
    """
    kernel()  # makes its constants
    began = perf_counter()
    before = network()
    turns = max(_LEAST, min(_MOST, int(_TASK_S / (perf_counter() - began + _PAUSE_S))))
    shares: list[float] = []
    for _ in range(turns):
        seconds = kernel()
        after = network()
        shares.append(seconds / mean((before, after)))
        before = after
    return median(shares)


def _seconds(runner: LocalRunner, task: TaskSpec, candidate: Candidate) -> float:
    sleep(_PAUSE_S)
    rounds = max(
        2, min(_ROUNDS, math.ceil(_TURN_S / (_RUNS * rough_seconds(task.dag, task.target))))
    )
    (result,) = runner.remeasure(task, [candidate], rounds)
    if not isinstance(result, Timing):
        raise ContenderError(f"{task.name} does not run alone: {result}")
    return median(result.seconds[rounds // 5 :])


def _turn(worker: Worker) -> float:
    sleep(_PAUSE_S)
    return median(worker.time(_TURN_S, 1))


def _workload(network: ZooNetwork) -> Network:
    """The network for us alone: no file for rivals, and in its own layout."""
    inputs = tuple((value.name, value.shape, value.dtype) for value in network.inputs)
    return Network(network.name, "", inputs, tuple(o.name for o in network.outputs), 0.0)


def _candidate(
    task: TaskSpec, records: Sequence[Record], named: str, state: CacheState
) -> Candidate:
    """The best of a task by the variant ``named``, or else as it is written."""
    known = {variant.name for variant in task.variants}
    wanted = named if named in known else task.variants[0].name
    own = [record for record in records if record.variant == wanted]
    found = next(usable(task, own, state), None)
    return draft_candidate(task) if found is None else found.candidate
