"""What every command is, and the arguments that several of them share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.module import Module

Parser = argparse.ArgumentParser


class UsageError(AutoschedError):
    """Arguments that parse but make no sense together."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: what the user types.
        summary: one line.
        description: what it does and prints.
        examples: command lines, each with a word on it.
        arguments: adds its arguments to a parser.
        run: executes it; None where it has actions, which run themselves.
    """

    name: str
    summary: str
    description: str
    examples: str
    arguments: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], None] | None


def add_command(commands: Any, command: Command) -> None:
    """Register a command with the sub-parsers of its parent."""
    parser = commands.add_parser(
        command.name,
        help=command.summary,
        description=command.description,
        epilog=f"examples:\n{command.examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.arguments(parser)
    if command.run is not None:
        parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
        parser.set_defaults(run=command.run)


def add_model(parser: Parser, compiled: bool = True) -> None:
    """MODEL, --target, --threads, --shape."""
    kinds = "a network of the zoo (resnet-18, ...) or the path of an .onnx file"
    extra = ", or of an .asd file that `autosched compile` wrote" if compiled else ""
    parser.add_argument("model", metavar="MODEL", help=kinds + extra)
    parser.add_argument(
        "--target", default="cpu", metavar="NAME",
        help="cpu (this machine, the default), cpu-avx512, cpu-avx2, cpu-sse2, cpu-neon",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=positive_int, metavar="N",
        help="worker threads (default: one for each CPU)",
    )  # fmt: skip
    parser.add_argument(
        "--shape", dest="shapes", type=named_shape, action="append", metavar="INPUT=1,3,224,224",
        help="shape of an input that an .onnx file leaves open; once for each such input",
    )  # fmt: skip


def add_log(parser: Parser) -> None:
    """--log, for commands that read it."""
    parser.add_argument(
        "--log", metavar="FILE",
        help="records of tuning; without it every operator gets its best predicted schedule",
    )  # fmt: skip


def add_json(parser: Parser) -> None:
    """--json."""
    parser.add_argument("--json", metavar="FILE", help="also write the result as JSON (- : stdout)")


def positive_int(text: str) -> int:
    """An argparse type."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """An argparse type: ``data=1,3,224,224`` or ``data=1x3x224x224``."""
    name, _, extents = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form INPUT=1,3,224,224")
    return name, tuple(positive_int(extent) for extent in extents.replace("x", ",").split(","))


def say(args: argparse.Namespace, text: object) -> None:
    """Print a result for people: not with --quiet, nor into JSON on stdout."""
    if not args.quiet and getattr(args, "json", None) != "-":
        print(text)


def open_network(
    model: str, shapes: Sequence[tuple[str, tuple[int, ...]]] | None = None
) -> Network:
    """The network that MODEL and --shape name."""
    if model.endswith(".onnx") or Path(model).is_file():
        from autosched.api import from_onnx

        return from_onnx(model, dict(shapes) if shapes else None)
    from autosched.zoo import build

    if shapes:
        raise UsageError("--shape is for .onnx files", model, "leave it out")
    return build(model)


def open_module(args: argparse.Namespace) -> Module:
    """The compiled module that MODEL, --target, --threads and --log name."""
    from autosched import api

    if args.model.endswith(".asd"):
        check_compiled(args)
        return api.load(args.model)
    check_log(args.log)
    network = open_network(args.model, args.shapes)
    return api.compile(network, args.target, args.log, args.threads)


def check_log(log: str | None) -> None:
    """Raise UsageError when a log is named that does not exist."""
    if log is not None and not Path(log).is_file():
        raise UsageError("the log does not exist", log, "leave --log out, or tune first")


def check_compiled(args: argparse.Namespace) -> None:
    """Raise UsageError when options are given that a compiled module has fixed already."""
    if args.log is not None or args.threads is not None or args.shapes:
        raise UsageError(
            "--log, --threads and --shape are fixed in a compiled module",
            args.model,
            "leave them out",
        )


def write_json(path: str | None, value: Any) -> None:
    """Write ``value`` to a file or, for ``-``, to stdout; nothing for None."""
    if path is None:
        return
    text = json.dumps(value, indent=2) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write JSON: {error.strerror}", path) from error
