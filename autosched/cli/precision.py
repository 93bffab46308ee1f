"""--precision and what goes with it: the layers of a network in narrower numbers."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from autosched.cli.arrays import read_arrays
from autosched.cli.command import Parser, UsageError
from autosched.cli.subject import NetworkSubject, Subject
from autosched.cli.waiting import Waiting
from autosched.graph.precision import PRECISIONS, PrecisionOptions

if TYPE_CHECKING:
    from sketch.target.target import Target


def add_precision(parser: Parser) -> None:
    """--precision, for commands that compile or tune networks."""
    parser.add_argument(
        "--precision", choices=PRECISIONS,
        help="of a network's layers: that of the model (as written, the default); products of "
        "bfloat16 (bf16) or of float16 elements (fp16) summed in float32; of float32 "
        "rounded to tf32, on GPUs; or products of bytes, data quantised at run time "
        "(int8-dynamic). On targets that have instructions for it; what that does to the outputs "
        "is said",
    )  # fmt: skip
    parser.add_argument(
        "--precision-bound", type=_bound, metavar="ERROR",
        help="layers with larger errors, relative to the largest of their outputs, stay as they "
        "are (default: 0.0078 for bf16, 0.00098 for fp16 and tf32, 0.031 for int8-dynamic)",
    )  # fmt: skip
    parser.add_argument(
        "--precision-data", metavar="FILE.npz", action="append",
        help="an array for each input, on which errors are measured beside random ones; may be "
        "given several times",
    )  # fmt: skip


def in_precision_of(subject: Subject, args: argparse.Namespace, target: Target) -> Subject:
    """The network in the precision of --precision; warns of what that does to its outputs."""
    if args.precision is None:
        if args.precision_bound is not None or args.precision_data is not None:
            raise UsageError(
                "--precision-bound and --precision-data are for --precision", subject.label
            )
        return subject
    if not isinstance(subject, NetworkSubject):
        raise UsageError("--precision is for networks", args.workload, "leave it out")
    data = [read_arrays(path) for path in args.precision_data or ()]
    options = PrecisionOptions(args.precision, data or None, args.precision_bound)
    with Waiting(f"evaluating {subject.label} in {args.precision}", args.quiet):
        return subject.in_precision(options, target)


def _bound(text: str) -> float:
    """An argparse type."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not 0 or more")
    return value
