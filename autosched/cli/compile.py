"""``autosched compile``: a network as a native library, or as one file for autosched itself."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.cli.command import (
    Command,
    Parser,
    UsageError,
    add_log,
    add_model,
    check_compiled,
    check_log,
    open_network,
    say,
)

if TYPE_CHECKING:
    from autosched.runtime.archive import Contents

_EXAMPLES = """\
  autosched compile model.onnx --log model.jsonl -o build/model    build/model.o, model.h, model.so
  autosched compile resnet-18 --log resnet-18.jsonl --save resnet-18.asd       for autosched.load
  autosched compile model.onnx --shape data=1,3,224,224 --threads 1 -o model   an open shape
  autosched compile model.onnx --target cpu-neon -o model                      another machine
  autosched compile resnet-18.asd -o resnet18                                  compiled already
"""
_SUFFIX = ".asd"


def _arguments(parser: Parser) -> None:
    add_model(parser)
    add_log(parser)
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="write the native library PATH.o, PATH.h and, where a linker is found, PATH.so; "
        "a PATH that ends in .asd is the same as --save",
    )  # fmt: skip
    parser.add_argument("--name", help="prefix of the C functions (default: from PATH)")
    parser.add_argument(
        "--save", metavar="FILE",
        help="write one file that autosched.load, bench, profile, explain and summary read "
        "(default, when there is no -o: MODEL.asd)",
    )  # fmt: skip


def _run(args: argparse.Namespace) -> None:
    from autosched.runtime.archive import write_archive
    from autosched.runtime.export import export_program
    from autosched.runtime.untuned import untuned_notice

    library, saved = _outputs(args)
    program, constants, objects, payloads = _contents(args)
    untuned = untuned_notice(program)
    if untuned and args.log is None:  # with a log it has been said already
        say(args, untuned)
    if saved is not None:
        write_archive(saved, program, constants, objects, payloads)
        say(args, f"{saved}: {saved.stat().st_size / 1e6:.1f} MB")
    if library is not None:
        say(args, export_program(program, constants, objects, library, args.name))


def _outputs(args: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Where to write the library, and the file for autosched."""
    library = None if args.output is None else Path(args.output)
    saved = None if args.save is None else Path(args.save)
    if library is not None and library.suffix == _SUFFIX:
        if saved is not None:
            raise UsageError(f"-o and --save both name an {_SUFFIX} file", args.output)
        library, saved = None, library
    if library is None and args.name is not None:
        raise UsageError("--name is for a library", args.name, "give -o PATH")
    if library is None and saved is None:
        stem = Path(args.model).name.removesuffix(".onnx").removesuffix(_SUFFIX)
        saved = Path(f"{stem}{_SUFFIX}")
    if saved is not None and saved == Path(args.model):
        raise UsageError("the model itself would be overwritten", args.model, "give --save or -o")
    return library, saved


def _contents(args: argparse.Namespace) -> Contents:
    """What is compiled, without loading it: it may be for another machine."""
    from autosched.api import resolve_target
    from autosched.compilation import contents_from_log
    from autosched.runtime.archive import read_archive

    if args.model.endswith(_SUFFIX):
        check_compiled(args)
        return read_archive(Path(args.model))
    check_log(args.log)
    network = open_network(args.model, args.shapes)
    return contents_from_log(network, resolve_target(args.target, args.threads), args.log)


COMMAND = Command(
    "compile",
    "write a compiled network to files",
    "Compiles a network and writes it\n"
    "  with -o      as a native library: an object file with code and packed constants, a C\n"
    "               header, and a shared library where a linker is found; it runs without Python\n"
    "  with --save  as one file that autosched.load and other commands read at once\n"
    "Operators without a record of tuning are named, with what they use instead.",
    _EXAMPLES,
    _arguments,
    _run,
)
