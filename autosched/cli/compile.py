"""``autosched compile``: a network as a native library, or as one file for autosched itself."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.cli.arrays import read_arrays
from autosched.cli.command import (
    Command,
    Parser,
    UsageError,
    check_apart,
    check_output,
    given_files,
    say,
)
from autosched.cli.model import (
    COMPILED_SUFFIX,
    add_log,
    add_model,
    add_numerics,
    check_compiled,
    check_no_inputs,
    compiled_contents,
    is_compiled,
    open_workload,
    target_of,
    with_denormals,
)
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from autosched.runtime.archive import Contents

_EXAMPLES = """\
  autosched compile model.onnx --log model.jsonl -o build/model    build/model.o, model.h, model.so
  autosched compile resnet-18 --log resnet-18.jsonl --save resnet-18.asd       for autosched.load
  autosched compile resnet-18 --effort quick -o build/resnet18       measures up to a minute first
  autosched compile model.onnx --shape data=1,3,224,224 --threads 1 -o model   an open shape
  autosched compile model.onnx --target cpu-neon -o model                      another machine
  autosched compile resnet-18.asd -o resnet18                                  compiled already
  autosched compile --workload GMM --log gmm.jsonl -o gmm                      one tensor program
"""


def _arguments(parser: Parser) -> None:
    add_model(parser)
    add_log(parser)
    add_numerics(parser)
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="write the native library PATH.o, PATH.h and, where a linker is found, PATH.so; "
        "in a folder, or for a PATH that ends with /, they are named after the model; a PATH that "
        "ends in .asd is the same as --save",
    )  # fmt: skip
    parser.add_argument("--name", help="prefix of the C functions (default: from PATH)")
    parser.add_argument(
        "--save", metavar="FILE",
        help="write one file that autosched.load, bench, profile, explain and summary read "
        "(default, when there is no -o: MODEL.asd)",
    )  # fmt: skip
    parser.add_argument(
        "--constants", metavar="FILE.npz",
        help="the constants of a workload, by name; they are packed into what is written",
    )  # fmt: skip


def _run(args: argparse.Namespace) -> None:
    from autosched.runtime.archive import write_archive
    from autosched.runtime.backend import runtime_of
    from autosched.runtime.table import size_text
    from autosched.runtime.untuned import untuned_warning

    library, saved = _outputs(args)
    check_apart(saved, given_files(args))
    check_output(saved)
    if library is not None and library.name:
        check_output(library.with_name(f"{library.name}.o"))
    modules = _contents(args)
    if library is not None and len(modules) > 1:
        raise UsageError(
            f"a library has one set of shapes, the module has {len(modules)}", args.model,
            "give --save",
        )  # fmt: skip
    if args.log is None:  # with a log it has been said already
        notify(filter(None, (untuned_warning(program) for program, *_ in modules)))
    if saved is not None:
        write_archive(saved, modules)
        say(args, f"{saved}: {size_text(saved.stat().st_size)}")
    if library is not None:
        program, constants, objects, _ = modules[0]
        export = runtime_of(program.target).export
        say(args, export(program, constants, objects, library, args.name))


def _outputs(args: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Where to write the library, and the file for autosched."""
    from autosched.runtime.library_path import library_path

    for option, path in (("-o", args.output), ("--save", args.save)):
        if path == "":
            raise UsageError(f"{option} names no file", hint="give the path of what to write")
    library = None if args.output is None else library_path(args.output, _stem(args))
    saved = None if args.save is None else Path(args.save)
    if library is not None and library.suffix == COMPILED_SUFFIX:
        if saved is not None:
            raise UsageError(f"-o and --save both name an {COMPILED_SUFFIX} file", args.output)
        library, saved = None, library
    if library is None and args.name is not None:
        raise UsageError("--name is for a library", args.name, "give -o PATH")
    if library is None and saved is None:
        saved = Path(f"{_stem(args)}{COMPILED_SUFFIX}")
    if args.model is not None and saved == Path(args.model):
        raise UsageError("the model itself would be overwritten", args.model, "give --save or -o")
    return library, saved


def _stem(args: argparse.Namespace) -> str:
    """What files are called after."""
    if args.workload is not None:
        return open_workload(args).name
    return Path(args.model).name.removesuffix(".onnx").removesuffix(COMPILED_SUFFIX)


def _contents(args: argparse.Namespace) -> list[Contents]:
    """What is compiled, without loading it: it may be for another machine."""
    from autosched.runtime.archive import read_archive  # what is saved again is signed

    if is_compiled(args):
        check_compiled(args)
        if args.device is not None:
            raise UsageError("--device says where a module runs", args.model, "leave it out")
        check_no_inputs(args.shapes, args.values, args.model, "leave it out")
        modules = read_archive(Path(args.model), args.trusted)
        return [with_denormals(contents, args.denormals) for contents in modules]
    return [compiled_contents(args, _constants(args))]


def _constants(args: argparse.Namespace) -> dict[str, NDArray[Any]] | None:
    """The constants of a workload, none of which may be missing; None for a network."""
    if args.workload is None:
        if args.constants is not None:
            raise UsageError("--constants is for --workload", args.model, "leave it out")
        return None
    if args.constants is not None:
        return read_arrays(args.constants)
    from autosched.compilation.task import constants_of

    task = open_workload(args).task(target_of(args))
    needed = [f"{t.name}: {t.dtype}{list(t.shape)}" for t in constants_of(task)]
    if needed:
        raise UsageError(
            f"the values of its constants are not known: {', '.join(needed)}",
            f"workload {args.workload}",
            "give --constants FILE.npz with an array for each",
        )
    return {}


COMMAND = Command(
    "compile",
    "write a compiled network to files",
    "Compiles a network and writes it\n"
    "  with -o      as a native library: an object file with code and packed constants, headers\n"
    "               for C and C++, and a shared library where a linker is found; it runs without\n"
    "               Python\n"
    "  with --save  as one file that autosched.load and other commands read at once\n"
    "Both are machine code, which runs with the rights of whoever loads it.  A saved file is\n"
    "signed for this user on this machine; elsewhere it has to be trusted (--trusted).\n"
    "Operators without a record of tuning are named, with what they use instead.",
    _EXAMPLES,
    _arguments,
    _run,
)
