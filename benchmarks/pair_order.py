"""How many pairs of measured programs a cost model orders right, and how many could be.

    python -m benchmarks.pair_order benchmarks/corpus/*.npz --json FILE

Pairs are of programs of one task of networks that the trees have not learned from.  They are
counted by how far their times are apart, for the draft model and for boosted trees, and for trees
that learned from fewer tasks.  Programs of this make of machine are also measured, twice: how far
one measurement agrees with the other bounds what a model could reach, and how far it agrees with
the corpus says what of a corpus lasts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.collect.run import MEASURE
from autosched.measure.result import Timing
from autosched.measure.runner import LocalRunner
from autosched.search.corpus_data import CorpusReplayer, corpus_dataset, machine_task
from autosched.search.corpus_splits import HELD_OUT, like_networks
from autosched.search.models import make_model
from autosched.study import load_corpus
from benchmarks.rows import Row, write_json
from codegen.host import host_target
from costmodel.evaluation import predict
from costmodel.gbdt_options import PRETRAINED

if TYPE_CHECKING:
    from autosched.records.corpus import Corpus, ProgramGroup
    from costmodel.dataset import Dataset

    Seconds = NDArray[np.float64]

APART: Final = (0.0, 0.02, 0.05, 0.1, 0.2)
"""Least differences of the times of a pair, relative to the shorter one."""

_SHARES: Final = (0.125, 0.25, 0.5, 1.0)
_MEASURED_TASKS: Final = 24
_BATCH: Final = 32
_LEAST: Final = 2


def pair_shares(tasks: Sequence[tuple[Seconds, Seconds]]) -> Row:
    """Of the pairs that are at least so far apart, the share in the right order, and their share of
    all pairs.

    Args:
        tasks: times and predictions of the programs of each; those that failed are left out.
    """
    right, counted = np.zeros(len(APART)), np.zeros(len(APART))
    for times, predicted in tasks:
        ran = np.isfinite(times) & np.isfinite(predicted)
        seconds, told = times[ran], predicted[ran]
        first, second = np.triu_indices(len(seconds), 1)
        apart = np.abs(np.log(seconds[first] / seconds[second]))
        truth = np.sign(seconds[first] - seconds[second])
        agree = (1.0 + truth * np.sign(told[first] - told[second])) / 2.0
        for number, least in enumerate(APART):
            chosen = (apart > np.log1p(least)) & (truth != 0)
            right[number] += agree[chosen].sum()
            counted[number] += chosen.sum()
    found = zip(APART, right / counted, counted / counted[0], strict=True)
    return {f"{least:g}": {"right": r, "of_all": share} for least, r, share in found}


def model_rows(corpus: Corpus, dataset: Dataset) -> Iterator[Row]:
    """The draft model, and trees that learned from all tasks that they may, and from fewer."""
    table = dataset.table()
    excluded = like_networks(corpus, HELD_OUT)
    held_out = np.isin(dataset.tasks, sorted(excluded))
    judged = [np.flatnonzero(table.groups == group) for group in np.flatnonzero(held_out)]
    others = np.random.default_rng(0).permutation(np.flatnonzero(~held_out))
    draft = make_model("draft", 0)
    yield {"name": "draft"} | pair_shares(
        [(table.seconds[m], predict(draft, dataset, m)) for m in judged]
    )
    for share in _SHARES:
        known = others[: int(len(others) * share)]
        programs = np.flatnonzero(np.isin(table.groups, known))
        trees = make_model("gbdt", 0, PRETRAINED)
        trees.update(dataset.take(programs))
        yield {"name": f"trees, {len(known)} tasks", "programs": len(programs)} | pair_shares(
            [(table.seconds[m], predict(trees, dataset, m)) for m in judged]
        )


def measured_rows(corpus: Corpus) -> Iterator[Row]:
    """Measurements of this machine against each other and the corpus; none on another make."""
    chosen = _of_this_make(corpus)
    if not chosen:
        return
    replayer = CorpusReplayer()
    then: list[Seconds] = []
    once: list[Seconds] = []
    again: list[Seconds] = []
    target = next(iter(chosen.values()))[0].target
    with LocalRunner(target, MEASURE) as runner:
        for groups in chosen.values():
            spec = groups[0].task.spec(target)
            made = [replayer.candidates(group) for group in groups]
            whole = [(g, c) for g, c in zip(groups, made, strict=True) if len(c) == len(g.seconds)]
            candidates = [candidate for _, found in whole for candidate in found]
            if len(candidates) < _LEAST:
                continue
            then.append(np.concatenate([group.seconds for group, _ in whole]))
            for found in (once, again):
                batches = range(0, len(candidates), _BATCH)
                results = [
                    r for n in batches for r in runner.measure(spec, candidates[n : n + _BATCH])
                ]
                found.append(
                    np.array([r.median if isinstance(r, Timing) else np.nan for r in results])
                )
    yield {"name": "measured twice"} | pair_shares(list(zip(once, again, strict=True)))
    yield {"name": "measured, and the corpus"} | pair_shares(list(zip(then, once, strict=True)))


def _of_this_make(corpus: Corpus) -> Mapping[str, list[ProgramGroup]]:
    """Some tasks of the networks that are held out, by name."""
    arch = host_target(1).arch
    networks = like_networks(corpus, HELD_OUT)
    found: dict[str, list[ProgramGroup]] = {}
    for group in corpus.groups():
        name = machine_task(group.task, group.target)
        if group.target.arch == arch and name in networks:
            found.setdefault(name, []).append(group)
    names = np.random.default_rng(0).permutation(sorted(found))[:_MEASURED_TASKS]
    return {name: found[name] for name in names.tolist()}


def main() -> None:
    """Print a line each, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    corpus = load_corpus(*arguments.corpora)
    rows = []
    for row in (*measured_rows(corpus), *model_rows(corpus, corpus_dataset(corpus))):
        rows.append(row)
        cells = (f"> {100 * least:g} %: {row[f'{least:g}']['right']:.3f}" for least in APART)
        print(f"{row['name']:28s} {', '.join(cells)}", flush=True)
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
