"""Options that benchmarks have in common."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Final, get_args

from autosched.graph.ops.base import Layout
from benchmarks.harness import round_count
from benchmarks.network_cases import CASES
from benchmarks.rivals import RIVALS

NETWORK_RIVALS: Final = ("openvino", "onnxruntime", "torch_eager", "torch_inductor")


def add_networks(parser: ArgumentParser) -> None:
    """Which networks to run: ``networks``, or ``all``, and their ``layout``."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--networks", nargs="+", choices=CASES)
    which.add_argument("--all", action="store_true", help=f"all of {', '.join(CASES)}")
    parser.add_argument(
        "--layout",
        choices=get_args(Layout),
        default="NCHW",
        help="of our images (default: NCHW); rivals get the model that they prefer",
    )


def add_keep(parser: ArgumentParser) -> None:
    """Whether other rows of a file of results stay: ``keep``."""
    parser.add_argument("--keep", action="store_true", help="other rows in FILE stay (--json)")


def add_comparison(
    parser: ArgumentParser, threads: Sequence[int], seconds: float, rivals: Sequence[str]
) -> None:
    """How to compare: ``threads``, ``rounds``, ``seconds``, ``rivals``, ``json``.

    Args:
        parser: takes the options.
        threads: numbers of threads, by default.
        seconds: per contender and round, by default.
        rivals: names of those to compare with, by default.
    """
    parser.add_argument("--threads", nargs="+", type=int, default=list(threads))
    parser.add_argument("--rounds", type=round_count, default=9)
    parser.add_argument("--seconds", type=float, default=seconds, help="per contender and round")
    names = [rival.name for rival in RIVALS]
    parser.add_argument("--rivals", nargs="*", default=list(rivals), choices=names)
    parser.add_argument("--json", metavar="FILE")


def add_tuning(parser: ArgumentParser, budget: str, logs: str) -> None:
    """How to tune before: ``budget``, ``skip_tuned``, ``logs``.

    Args:
        parser: takes the options.
        budget: by default.
        logs: directory of the logs, by default.
    """
    parser.add_argument("--budget", default=budget, help="tuning time of a row; 0: only the log")
    parser.add_argument(
        "--skip-tuned", action="store_true", help="only tune tasks without a record in the log"
    )
    parser.add_argument("--logs", default=logs, help="directory of the tuning logs")


def add_float_logs(parser: ArgumentParser) -> None:
    """Where the records of the float networks are that reduced ones are compared with."""
    parser.add_argument(
        "--float-logs", default="benchmarks/logs", help="directory of the float networks' logs"
    )
