"""Which tasks a corpus is measured on: the zoo at several sizes, the workload library, chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from autosched.collect.random_dags import random_dag
from autosched.compilation.network import extract_checked, network_tasks
from autosched.records.corpus import Origin
from autosched.tasks.spec import TaskSpec
from autosched.workloads.builtin import WORKLOADS
from autosched.zoo.build import NAMES, build

if TYPE_CHECKING:
    from sketch.target.target import Target

# Of the inputs of a network, its own first: pixels, or tokens.  None is the network's default.
_SIZES: Final = {
    "bert-base": (None, 32, 64, 256),
    "dcgan": (None,),
    "dla-34": (None, 256, 128),
    "inception-v3": (None, 171, 235),
    "mlp": (None, 16, 40),
    "resnet3d-18": (None, 56, 80),
}
_IMAGES: Final = (None, 128, 160, 96, 192)
_BATCHES: Final = (1, 2, 4, 8)
_WORKLOAD_BATCHES: Final = (1, 4, 2, 8)
# Tasks of each source in a round; whichever is exhausted is left out.
_ROUND: Final = ("zoo", "random", "zoo", "workload")
# Tasks that are drawn before the next network is opened; networks have some twenty.
_DRAWN_BETWEEN: Final = 3
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Sourced:
    """A task, and where it occurs."""

    task: TaskSpec
    origins: tuple[Origin, ...]


def sourced_tasks(
    target: Target, seed: int = 0, networks: Sequence[str] | None = None
) -> Iterator[Sourced]:
    """Tasks without end, in an order that depends on the seed: any first part is a sample.

    A task may come more than once, with another origin each time.  All networks at their own sizes
    are opened first; then one size and batch after another.

    Args:
        target: the machine.
        seed: of the order, and of the random programs.
        networks: of the zoo: only the tasks of these at their own sizes; None: of everything.

    Raises:
        GraphError: there is no network of that name.
    """
    rng = np.random.default_rng(seed)
    if networks is not None:
        found = (s for name in networks for s in _network(name, 1, None, target))
        yield from _shuffled(found, rng)
        return
    sources: dict[str, Iterator[Sourced]] = {
        "zoo": _zoo(target, rng),
        "workload": _library(target, rng),
        "random": _chance(target, seed),
    }
    while True:
        for name in _ROUND:
            yield from islice(sources[name], 1)


def _zoo(target: Target, rng: np.random.Generator) -> Iterator[Sourced]:
    """Networks at their own sizes, then at others; opened one after another while tasks are drawn
    from all that are open, so that the first task need not wait for the last network.
    """
    sizes = [(n, b, i) for n in NAMES for b, i in product(_BATCHES, _SIZES.get(n, _IMAGES))]
    own = [place for place in sizes if place[1:] == (1, None)]
    others = [place for place in sizes if place[1:] != (1, None)]
    order = [*_shuffled(own, rng), *_shuffled(others, rng)]
    tasks: list[Sourced] = []
    while order or tasks:
        if order:
            tasks += _network(*order.pop(0), target)
        for _ in range(min(len(tasks), _DRAWN_BETWEEN)):
            yield tasks.pop(int(rng.integers(len(tasks))))


def _network(name: str, batch: int, image: int | None, target: Target) -> list[Sourced]:
    """The tasks of a network at one size."""
    size = "" if image is None else f" image={image}"
    label = f"{name} batch={batch}{size}"
    tasks = network_tasks(extract_checked(build(name, batch, image), target), target)
    return [Sourced(task, (Origin(label, name, task.weight),)) for task in tasks]


def _library(target: Target, rng: np.random.Generator) -> Iterator[Sourced]:
    for batch in _WORKLOAD_BATCHES:
        found = [(w, sizes) for w in WORKLOADS for sizes in w.configurations(batch)]
        for workload, sizes in _shuffled(found, rng):
            label = workload.label(*sizes)
            yield Sourced(TaskSpec(workload.dag(*sizes), target, label), (Origin(label),))


def _chance(target: Target, seed: int) -> Iterator[Sourced]:
    for number in count(seed << 32):
        label = f"random {number}"
        yield Sourced(TaskSpec(random_dag(number), target, label), (Origin(label),))


def _shuffled(items: Iterable[_Item], rng: np.random.Generator) -> list[_Item]:
    found = list(items)
    return [found[place] for place in rng.permutation(len(found)).tolist()]
