"""``autosched costmodel collect``: measure programs for a corpus."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.cli.command import (
    Command,
    Parser,
    UsageError,
    naming,
    positive_int,
    say,
    thread_count,
)
from autosched.cli.model import check_threads
from autosched.graph.errors import GraphError
from autosched.system.user_warnings import notify
from sketch.errors import TargetError

if TYPE_CHECKING:
    from autosched.collect.run import CollectProgress

CORPUS_SUFFIX: Final = ".npz"
_LINE_EVERY_S: Final = 10.0
EXAMPLES: Final = """\
  autosched costmodel collect --hours 0.5 corpus.npz       half an hour; again: goes on from there
  autosched costmodel collect --hours 1 corpus.npz --network resnet-50 --programs 256
  autosched costmodel train corpus.npz -o model.json
  autosched costmodel train mine.npz theirs.npz -o model.json      several machines in one model
  autosched costmodel eval corpus.npz                      held-out tasks and networks
  autosched costmodel eval resnet-18 --log resnet-18.jsonl
  autosched costmodel eval --workload C2D --log c2d.jsonl --cost-model gbdt --cost-model draft
"""


def add_seed(parser: Parser, what: str) -> None:
    """--seed; ``what`` is random."""
    parser.add_argument("--seed", type=natural, default=0, metavar="N",
                        help=f"{what} (default: %(default)s)")  # fmt: skip


def natural(text: str) -> int:
    """An argparse type: a whole number, not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def hours(text: str) -> float:
    """An argparse type."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of hours")
    return value


def _arguments(parser: Parser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", type=Path,
                        help="file that programs are added to: NAME.npz")  # fmt: skip
    parser.add_argument("--hours", type=hours, metavar="H", required=True, help="wall-clock limit")
    parser.add_argument("--threads", type=thread_count, default=1, metavar="N",
                        help="of each program (default: %(default)s)")  # fmt: skip
    parser.add_argument("--target", default="cpu", metavar="NAME",
                        help="cpu (default), or less of this machine: cpu-avx2")  # fmt: skip
    parser.add_argument("--programs", type=positive_int, default=96, metavar="N",
                        help="of a task, at most (default: %(default)s)")  # fmt: skip
    parser.add_argument(
        "--network", metavar="NAME", action="append",
        help="of the zoo, at its own size: only its tasks; may be repeated (default: tasks of all "
        "networks at several sizes, the workload library, and random programs)",
    )  # fmt: skip
    add_seed(parser, "of tasks and candidates")


def _run(args: argparse.Namespace) -> None:
    from autosched.api import resolve_target
    from autosched.collect.run import MEASURE
    from autosched.measure.runner import LocalRunner
    from autosched.zoo.build import check_name

    if args.corpus.suffix != CORPUS_SUFFIX:
        raise UsageError("a corpus is a file NAME.npz", str(args.corpus))
    with naming(TargetError, GraphError):
        target = resolve_target(args.target, args.threads)
        for name in args.network or ():
            check_name(name)
    check_threads(target)
    # The runner's clean process must start before anything loads an OpenMP runtime.
    with LocalRunner(target, MEASURE) as runner:
        from autosched.collect.run import CollectOptions, Collector
        from autosched.collect.sources import sourced_tasks

        collector = Collector(
            args.corpus,
            runner,
            target,
            CollectOptions(3600 * args.hours, args.programs, args.seed),
            _Lines(args),
            lambda text: notify([text]),
        )
        corpus = collector.collect(sourced_tasks(target, args.seed, args.network))
    say(args, f"{args.corpus}: {corpus}")


class _Lines:
    """A line of progress now and then."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args, self._next_s = args, 0.0

    def __call__(self, view: CollectProgress) -> None:
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + _LINE_EVERY_S
        minutes, seconds = divmod(max(0, int(view.left_s)), 60)
        left = f"{minutes}:{seconds:02d} left"
        say(
            self._args,
            f"{view.programs} programs, {view.tasks} tasks; {view.rate:.1f} programs/s, "
            f"{view.failed} failed; {left}; {view.task}",
        )


COLLECT: Final = Command(
    "collect",
    "measure programs that cost models can learn from",
    "Measures candidates of many tasks, half at random, half from a search under a model that\n"
    "learns meanwhile, and adds them to CORPUS every half minute.  Programs are timed one at a\n"
    "time while nothing else goes on, so the machine should be idle.  The file holds programs,\n"
    "steps, values and times, no features; `autosched.study.load_corpus` reads it.",
    EXAMPLES,
    _arguments,
    _run,
)
