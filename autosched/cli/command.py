"""What every command is, and the arguments that several of them share."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from autosched.cli.exit_codes import WRONG_USAGE
from autosched.system.json_values import finite_values
from sketch.errors import AutoschedError, nearest
from sketch.replaced_file import whole_output
from sketch.target.target import MOST_THREADS

STDOUT: Final = "-"
"""Instead of a file: stdout."""
# Arguments that name a file to write once all work is done.
_OUTPUTS: Final = ("json", "csv")
# Arguments that name files to read, or may.
_READ: Final = (
    "model", "more", "which", "workload", "policy", "cost_model", "examples", "corpora",
    "constants", "precision_data",
)  # fmt: skip
# What begins like a negative number; no option does.
_NEGATIVE: Final = re.compile(r"-[\d.]")
# Arguments that name a file, or may.
_TRUTH: Final = {"true": True, "false": False}
_FILES: Final = ("FILE", "LOG", "MODEL", "PATH")


class Parser(argparse.ArgumentParser):
    """A parser that tells wrong usage in one line, as all other errors are told."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # ``-3s`` is a value, too, of whose option we say what is wrong with it.
        self._negative_number_matcher = _NEGATIVE

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(WRONG_USAGE, f"{self.prog}: {message} | see `{self.prog} --help`\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Unknown ones are an error of the command that they are given to, which knows its own."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = (text.partition("=")[0] for text in unknown if text.startswith("--"))
            close = nearest(next(options, ""), self._option_string_actions)
            guess = "" if close is None else f" | did you mean {close}?"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{guess}")
        return found, []

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        close = nearest(str(value), known)
        guess = "" if close is None else f" | did you mean {close}?"
        what = f"{value!r} is none of {', '.join(known)}{guess}"
        raise argparse.ArgumentError(action, what)


class UsageError(AutoschedError):
    """Arguments that parse but name nothing, or make no sense together: the exit code is 2."""


class FileError(AutoschedError):
    """A file that an argument names cannot be read or written."""


@contextmanager
def naming(*failures: type[AutoschedError]) -> Iterator[None]:
    """These errors are those of arguments that name nothing, or have no sensible value.

    Raises:
        UsageError: instead of them.
    """
    try:
        yield
    except failures as error:
        raise UsageError(error.what, error.where, error.hint) from error


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


def named_value(text: str) -> tuple[str, bool | int | float]:
    """An argparse type: ``sr=16000``, ``temperature=0.5`` or ``use_cache_branch=true``."""
    name, _, number = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form INPUT=16000")
    if number in _TRUTH:
        return name, _TRUTH[number]
    for kind in (int, float):
        try:
            return name, kind(number)
        except ValueError:
            continue
    raise argparse.ArgumentTypeError(f"{number!r} is not a number, true or false")


def say(args: argparse.Namespace, text: object) -> None:
    """Print a result for people: not with --quiet, nor into a table or JSON on stdout.

    Where nobody reads it any more, what is still to do is done; ``args.cut`` tells of it.
    """
    if args.quiet or STDOUT in (getattr(args, "json", None), getattr(args, "csv", None)):
        return
    try:
        print(text)
    except BrokenPipeError:
        args.cut = True


def check_outputs(args: argparse.Namespace) -> None:
    """Check --json and --csv, which are written once all work is done.

    Raises:
        FileError: one cannot be written.
        UsageError: one is read by the command, or is named by the other, too.
    """
    outputs = [getattr(args, name, None) for name in _OUTPUTS]
    for n, output in enumerate(outputs):
        check_apart(output, [*given_files(args), *(other for other in outputs[:n] if other)])
        if output != STDOUT:
            check_output(output)


def given_files(args: argparse.Namespace) -> list[str]:
    """The files that a command reads, and its log, which may be still to be made."""
    given = [value for name in _READ if (value := getattr(args, name, None)) is not None]
    texts = [
        str(text) for value in given for text in (value if isinstance(value, list) else [value])
    ]
    # Also those of FILE.py:NAME.
    names = [name for text in texts for name in (text, text.rpartition(":")[0])]
    logs = [getattr(args, "log", None), *getattr(args, "logs", [])]
    return [*filter(os.path.exists, names), *(log for log in logs if log is not None)]


def check_apart(output: str | Path | None, others: Iterable[str | Path]) -> None:
    """Raise UsageError where a file that is to be written is one of some others.

    Raises:
        UsageError: it is, by whatever path, or is the file of a database among them.
    """
    if output is not None and any(_same(output, _file_of(other)) for other in others):
        raise UsageError(
            "another argument names the file that is to be written", str(output), "choose another"
        )


def _same(one: str | Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return os.path.realpath(one) == os.path.realpath(other)


def _file_of(log: str | Path) -> str | Path:
    """The file of a database by its URL; other paths as they are."""
    kind, mark, rest = str(log).partition(":///")
    return rest.partition("?")[0] if mark and kind.startswith("sqlite") else log


def check_output(path: str | Path | None) -> None:
    """Make the folder of a file that is to be written later; None is no file.

    Raises:
        FileError: the file cannot be written: better said before the work than after it.
        UsageError: it is a log.
    """
    if path is None:
        return
    if str(path) == STDOUT:
        raise UsageError("a file is written, not stdout", STDOUT, "name one")
    file = Path(path)
    try:
        existed = file.exists()
        if not existed:  # nor does what a link may lead to
            file = Path(os.path.realpath(file))
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab"):
            pass
        if not existed:
            file.unlink()
        recorded = file.is_file() and is_log(file)
    except OSError as error:
        raise FileError(
            f"the file cannot be written: {error.strerror}", str(path), "choose another"
        ) from error
    if recorded:  # ``-o *.jsonl`` names the first of them
        raise UsageError("the file is a log, which would be lost", str(path), "choose another")


def is_log(file: Path) -> bool:
    """Whether a file begins with a record."""
    from autosched.records.line import LONGEST_BYTES, looks_recorded

    with file.open("rb") as stream:
        return looks_recorded(stream.readline(LONGEST_BYTES))


def write_json(path: str | None, value: Any) -> None:
    """Write ``value`` to a file or, for ``-``, to stdout; nothing for None.

    Infinities and NaN become null.
    """
    if path is None:
        return
    text = json.dumps(finite_values(value), indent=2, allow_nan=False) + "\n"
    if path == STDOUT:
        sys.stdout.write(text)
        return
    try:
        with whole_output(Path(path)) as file:
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write JSON: {error.strerror}", path) from error
