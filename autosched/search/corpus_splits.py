"""What of a corpus is held out to judge a model: nothing that is like it may be trained on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from autosched.records.corpus import Corpus, CorpusTask
from autosched.search.corpus_data import machine_task
from costmodel.evaluation import Evaluation, evaluate, evaluate_parts

if TYPE_CHECKING:
    from costmodel.dataset import Dataset
    from costmodel.model import CostModel
    from sketch.target.target import Target

HELD_OUT: Final = ("resnet-50", "mobilenet-v2", "inception-v3", "bert-base", "resnet3d-18")
"""Networks that models are judged on, each as a whole."""

_LEAST_TASKS: Final = 2  # to hold one out


def evaluate_corpus(
    corpus: Corpus,
    dataset: Dataset,
    make: Callable[[], CostModel],
    networks: Sequence[str] = HELD_OUT,
    seed: int = 0,
) -> list[Evaluation]:
    """Ranking metrics of a model on what it has not learned from.

    First by task: a fifth of the tasks at a time, together with those that differ from them in
    their epilogue.  Then whole networks at once, and their mean.  Then, if there are several, one
    make of machine after another.

    Args:
        corpus: measured programs.
        dataset: their features, see ``corpus_dataset``.
        make: an untrained model, called several times.
        networks: those that the corpus has programs of count.
        seed: of the folds.

    Raises:
        CostModelError: too few programs or tasks.
        ModelFaultError: the model raised, or predicted something that is no time.
    """
    names = dict(_names(corpus))
    cores = {name: task.core for name, (task, _) in names.items()}
    found = [evaluate(dataset, make, "by-task", seed, cores)]
    parts = {network: _weights(names, network) for network in networks}
    parts = {network: weights for network, weights in parts.items() if weights}
    excluded = like_networks(corpus, networks)
    if parts and len(set(names) - excluded) >= _LEAST_TASKS:
        found += evaluate_parts(dataset, make, parts, sorted(excluded), "networks")
    makes = {target.arch for _, target in names.values()}
    for arch in sorted(makes) if len(makes) > 1 else ():
        weights = {name: 1.0 for name, (_, target) in names.items() if target.arch == arch}
        found += evaluate_parts(dataset, make, {arch: weights}, list(weights), "")
    return found


def like_networks(corpus: Corpus, networks: Collection[str]) -> set[str]:
    """The tasks of networks, and all that differ from one of them in their epilogue: as a dataset
    of the corpus names them.
    """
    names = dict(_names(corpus))
    cores = {t.core for t, _ in names.values() if any(o.network in networks for o in t.origins)}
    return {name for name, (task, _) in names.items() if task.core in cores}


def _weights(names: dict[str, tuple[CorpusTask, Target]], network: str) -> dict[str, float]:
    """Occurrences of the tasks of a network at the size that most of them were measured at."""
    sizes: dict[str, dict[str, float]] = {}
    for name, (task, _) in names.items():
        for origin in task.origins:
            if origin.network == network:
                sizes.setdefault(origin.text, {})[name] = origin.weight
    return max(sizes.values(), key=len, default={})


def _names(corpus: Corpus) -> Iterator[tuple[str, tuple[CorpusTask, Target]]]:
    """Tasks on machines, by what a dataset calls them."""
    for group in corpus.groups():
        yield machine_task(group.task, group.target), (group.task, group.target)
