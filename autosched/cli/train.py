"""``autosched costmodel train``, and cost models judged on a corpus."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.cli.collect import CORPUS_SUFFIX, EXAMPLES, add_seed
from autosched.cli.command import Command, Parser, UsageError, check_apart, check_output, say
from autosched.cli.waiting import Waiting
from autosched.search.models import ModelName, make_model
from codegen.cpu_share import usable_cpus
from costmodel.gbdt_options import PRETRAINED, GbdtOptions

if TYPE_CHECKING:
    from costmodel.evaluation import Evaluation
    from costmodel.model import CostModel

_JUDGED: Final[tuple[ModelName, ...]] = ("gbdt", "draft")


def _arguments(parser: Parser) -> None:
    parser.add_argument("corpora", metavar="CORPUS", nargs="+", help="of `costmodel collect`")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True,
                        help="the model, as JSON")  # fmt: skip
    parser.add_argument(
        "--without", metavar="NETWORK", action="append", default=[],
        help="leave its tasks out, and what differs from them in the epilogue; may be repeated",
    )  # fmt: skip
    add_seed(parser, "of the trees")


def _run(args: argparse.Namespace) -> None:
    from autosched.runtime.table import size_text
    from autosched.search.corpus_data import corpus_dataset
    from autosched.search.corpus_splits import like_networks
    from autosched.study import load_corpus
    from costmodel.checked import checked_update
    from costmodel.errors import CostModelError
    from costmodel.gbdt import GradientBoostedModel

    check_apart(args.output, args.corpora)
    if args.output.suffix == CORPUS_SUFFIX:  # ``-o *.npz`` names the first of them
        raise UsageError("a model is no corpus", str(args.output), "name a file NAME.json")
    check_output(args.output)
    corpus = load_corpus(*args.corpora)
    known = {origin.network for task in corpus.tasks.values() for origin in task.origins} - {""}
    for name in args.without:
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise UsageError(f"no program of the corpus is of {name!r}", "--without", names)
    with Waiting(f"learning from {corpus}", args.quiet):
        dataset = corpus_dataset(corpus)
        if args.without:
            dataset = dataset.without(like_networks(corpus, args.without))
        model = GradientBoostedModel(_options(args.seed))
        checked_update(model, dataset)
    if not model.ready:
        raise CostModelError(
            f"{len(dataset)} programs are too few", ", ".join(args.corpora), "collect more"
        )
    model.save(args.output)
    size = size_text(args.output.stat().st_size)
    say(args, f"{args.output}: {model.trees} trees from {len(dataset)} programs, {size}")


def _options(seed: int) -> GbdtOptions:
    return replace(PRETRAINED, seed=seed, threads=usable_cpus())


def judge_corpus(args: argparse.Namespace) -> list[tuple[str, Evaluation]]:
    """How each of the cost models does on what it has not learned from."""
    from autosched.search.corpus_data import corpus_dataset
    from autosched.search.corpus_splits import evaluate_corpus
    from autosched.study import load_corpus

    corpus = load_corpus(args.model, *args.more)
    with Waiting(f"judging cost models on {corpus}", args.quiet):
        dataset = corpus_dataset(corpus)
        return [
            (name, item)
            for name in args.cost_model or _JUDGED
            for item in evaluate_corpus(
                corpus, dataset, partial(_model, name, args.seed), seed=args.seed
            )
        ]


def _model(name: ModelName, seed: int) -> CostModel:
    return make_model(name, seed, _options(seed))


TRAIN: Final = Command(
    "train",
    "train a cost model on a corpus",
    "Extracts the features of all programs and trains gradient-boosted trees on them.\n"
    "The file holds numbers and text, no code; `tune --cost-model FILE` begins with it.",
    EXAMPLES,
    _arguments,
    _run,
)
