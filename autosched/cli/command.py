"""What every command is, and the arguments that several of them share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from sketch.errors import AutoschedError

MOST_THREADS: Final = 1024
# Arguments that name a file, or may.
_FILES: Final = ("FILE", "LOG", "MODEL", "PATH")


class Parser(argparse.ArgumentParser):
    """A parser that tells wrong usage in one line, as all other errors are told."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(2, f"{self.prog}: {message} | see `{self.prog} --help`\n")


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


def add_actions(parser: Parser, actions: Iterable[Command]) -> None:
    """Register the actions of a command, one of which the user has to name."""
    commands = parser.add_subparsers(metavar="ACTION", required=True, title="actions")
    for action in actions:
        add_command(commands, action)


def add_json(parser: Parser) -> None:
    """--json."""
    parser.add_argument("--json", metavar="FILE", help="also write the result as JSON (- : stdout)")


def mark_files(parser: argparse.ArgumentParser, completer: object) -> None:
    """Let a shell complete the arguments that name files, those of all commands below, too."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                mark_files(below, completer)
        elif str(action.metavar).startswith(_FILES):
            action.complete = completer  # type: ignore[attr-defined]  # where shtab looks


def positive_int(text: str) -> int:
    """An argparse type."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def thread_count(text: str) -> int:
    """An argparse type."""
    value = positive_int(text)
    if value > MOST_THREADS:
        raise argparse.ArgumentTypeError(f"{value} is more than {MOST_THREADS}")
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


def check_output(path: str | Path | None) -> None:
    """Make the folder of a file that is to be written later; None and ``-`` are no file.

    Raises:
        UsageError: the file cannot be written: better said before the work than after it.
    """
    if path is None or path == "-":
        return
    file = Path(path)
    try:
        existed = file.exists()
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab"):
            pass
        if not existed:
            file.unlink()
    except OSError as error:
        raise UsageError(
            f"the file cannot be written: {error.strerror}", str(path), "choose another"
        ) from error


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
