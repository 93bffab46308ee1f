"""MODEL and --workload: the arguments that say what a command works on, and what they open."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from os.path import isdir, isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosched.cli.command import (
    FileError,
    Parser,
    UsageError,
    add_json,
    is_log,
    named_shape,
    named_value,
    naming,
    positive_int,
    thread_count,
)
from autosched.cli.precision import add_precision, in_precision_of
from autosched.cli.subject import NetworkSubject, Subject, WorkloadSubject
from autosched.cli.waiting import Waiting
from autosched.graph.errors import GraphError
from autosched.records.accuracy import ACCURACIES
from autosched.system.errors import WorkloadError
from autosched.system.numbers import counted
from autosched.system.user_warnings import notify
from autosched.tuning.options import EFFORTS
from codegen.denormals import DENORMALS, Denormals
from sketch.errors import TargetError
from sketch.target.gpu_targets import DEVICES
from sketch.target.target import MOST_THREADS

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.archive import Contents
    from autosched.runtime.module import Module
    from sketch.target.target import Target

COMPILED_SUFFIX = ".asd"
_MODELS: Final = "give an .onnx file or a network's name"


def add_model(parser: Parser, compiled: bool = True, kinds: str = "") -> None:
    """MODEL or --workload with --args and --configuration; the machine; --shape and --value.

    ``kinds``: what else MODEL may be.
    """
    kinds += "a network of the zoo (resnet-18, ...) or the path of an .onnx file"
    extra = ", or of an .asd file that `autosched compile` wrote" if compiled else ""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("model", metavar="MODEL", nargs="?", help=kinds + extra)
    either.add_argument(
        "--workload", metavar="NAME",
        help="instead of a MODEL, one tensor program: a workload of `autosched workloads`, or your "
        "own as FILE.py:NAME or package.module:NAME",
    )  # fmt: skip
    parser.add_argument(
        "--args", metavar="n=1,h=56", default="",
        help="arguments of the workload; they replace those of its configuration",
    )  # fmt: skip
    parser.add_argument(
        "--configuration", type=positive_int, metavar="K",
        help="which of the configurations that `autosched workloads` lists (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--target", default="cpu", metavar="NAME",
        help="cpu (this machine, the default), cpu-avx512, cpu-avx2, cpu-sse2, cpu-neon, "
        "cpu-neoverse-v1; cuda, cuda:sm_90 or cuda:h200",
    )  # fmt: skip
    parser.add_argument(
        "--device", choices=DEVICES, metavar="NAME",
        help="of a cuda target: emulated, this machine's CPU stands in for the GPU (right results, "
        "estimated times); emulated-checked, the same, and a kernel that accesses memory out of "
        "bounds, unordered or before it is written is an error (slow)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=thread_count, metavar="N",
        help=f"worker threads, at most {MOST_THREADS} (default: one for each CPU)",
    )  # fmt: skip
    parser.add_argument(
        "--shape", dest="shapes", type=named_shape, action="append", metavar="INPUT=1,3,224,224",
        help="shape of an input that an .onnx file leaves open; once for each such input; or which "
        "of its shapes to take of an .asd file that was compiled for several",
    )  # fmt: skip
    add_values(parser)
    if compiled:
        parser.add_argument(
            "--trusted", action="store_true",
            help="run the machine code of an .asd file that was saved elsewhere or by somebody "
            "else; your own are known by their signature",
        )  # fmt: skip


def add_values(parser: Parser) -> None:
    """--value, for commands that read .onnx files."""
    parser.add_argument(
        "--value", dest="values", type=named_value, action="append", metavar="INPUT=16000",
        help="number (or true, false) that an input of an .onnx file always has, which is a "
        "constant then; once for each such input",
    )  # fmt: skip


def add_log(parser: Parser) -> None:
    """--log and --effort, for commands that compile: where schedules come from."""
    parser.add_argument(
        "--log", metavar="LOG",
        help="records of tuning, a file or a database (sqlite:///FILE, "
        "postgresql://USER@HOST/NAME); without it every operator gets its best predicted schedule",
    )  # fmt: skip
    parser.add_argument(
        "--effort", choices=EFFORTS,
        help="for operators without a record: none (predicted among few schedules), draft "
        "(predicted among many, of other algorithms, too; the default), or quick (at most 8 trials "
        "of each are measured here and added to --log, a minute in all)",
    )  # fmt: skip


def add_numerics(parser: Parser) -> None:
    """--accuracy, --denormals and --precision, for commands that compile."""
    parser.add_argument(
        "--accuracy", choices=ACCURACIES,
        help="which other algorithms than those the operators are written in may be used: "
        "none (as written), those with errors up to 1e-5 of the largest output, or four times "
        "what is written (default), these and 1e-5 for all of a network together (close), or up "
        "to 1e-4 (fast)",
    )  # fmt: skip
    parser.add_argument(
        "--denormals", choices=DENORMALS,
        help="numbers below 1.2e-38 become 0 while a CPU runs (flush, the default), or are kept, "
        "which is slow where they occur; default for an .asd file: what it says",
    )  # fmt: skip
    add_precision(parser)


def add_timing(parser: Parser, repeats: int, more: str = "") -> None:
    """MODEL and the rest, --log, --repeats and --json: of a command that times runs."""
    add_model(parser)
    add_log(parser)
    add_numerics(parser)
    parser.add_argument("--repeats", type=positive_int, default=repeats, metavar="N",
                        help=f"timed runs{more} (default: %(default)s)")  # fmt: skip
    add_json(parser)


def open_network(
    model: str,
    shapes: Sequence[tuple[str, tuple[int, ...]]] | None = None,
    values: Sequence[tuple[str, bool | int | float]] | None = None,
) -> Network:
    """The network that MODEL, --shape and --value name."""
    check_model(model)
    from autosched.network_source import from_onnx, names_file

    if names_file(model):
        return from_onnx(model, dict(shapes or ()) or None, dict(values or ()) or None)
    from autosched.zoo.build import build, check_name

    check_no_inputs(shapes, values, model, "leave it out")
    if Path(model).name != model:
        raise FileError("there is no such file", model, _MODELS)
    with naming(GraphError):
        check_name(model)
    return build(model)


def check_no_inputs(shapes: object, values: object, model: str, advice: str) -> None:
    """Check that nothing is said of inputs, for what is no .onnx file.

    Args:
        shapes: what --shape gives.
        values: what --value gives.
        model: what it is given for.
        advice: what to do instead.

    Raises:
        UsageError: one of both is given.
    """
    for option, given in (("--shape", shapes), ("--value", values)):
        if given:
            raise UsageError(f"{option} is for .onnx files", model, advice)


def check_model(model: str) -> None:
    """Raise an error for what users take for a model, though it is none that can be read.

    Raises:
        UsageError: it is a folder, a log, or a compiled module.
        FileError: it is a file that cannot be read.
    """
    if isdir(model):
        raise UsageError("a folder is no model", model, _MODELS)
    if model.endswith(COMPILED_SUFFIX):
        raise UsageError(
            "a compiled module has no tasks: its schedules are fixed", model,
            "give what it was compiled from: an .onnx file or a network's name",
        )  # fmt: skip
    try:
        recorded = isfile(model) and is_log(Path(model))
    except OSError as error:
        raise FileError(
            f"the file cannot be read: {error.strerror}", model, "see who may read it"
        ) from error
    if recorded:
        raise UsageError(
            "a log is no model", model, f"give the model that it is of, and --log {model}"
        )


def open_workload(args: argparse.Namespace) -> WorkloadSubject:
    """The program that --workload, --args and --configuration name."""
    from autosched.workloads.arguments import bind_text
    from autosched.workloads.source import find

    check_no_inputs(args.shapes, args.values, args.workload, "use --args")
    with naming(WorkloadError):
        workload = find(args.workload)
        arguments = bind_text(workload, args.args, args.configuration)
    return WorkloadSubject(workload, arguments)


def open_subject(args: argparse.Namespace) -> Subject:
    """What MODEL or --workload name."""
    if args.workload is not None:
        return open_workload(args)
    if args.args or args.configuration is not None:
        raise UsageError("--args and --configuration are for --workload", args.model)
    with Waiting(f"reading {args.model}", args.quiet):
        network = open_network(args.model, args.shapes, args.values)
        values, shapes = dict(args.values or ()), dict(args.shapes or ())
        return NetworkSubject(args.model, network, values, shapes)


def target_of(args: argparse.Namespace) -> Target:
    """The machine that --target, --device and --threads name."""
    from autosched.api import resolve_target

    with naming(TargetError):
        return resolve_target(args.target, args.threads, args.device)


def check_threads(target: Target) -> None:
    """Warn of threads that take turns: this machine is to run them, and has fewer CPUs."""
    from autosched.runtime.backend import runtime_of
    from autosched.runtime.cores import available_cores

    cores = len(available_cores())
    if target.threads > cores and runtime_of(target).in_process:
        shared = f"{target.threads} threads share {counted(cores, 'CPU')}"
        notify([f"{shared}: times will be longer than on as many CPUs"])


def open_module(args: argparse.Namespace, runs: bool = True) -> Module:
    """The compiled module that the arguments name; compiles it where that is still to do.

    ``runs``: it will be run, so that what it lacks here is said before anything is compiled.
    """
    from autosched import api
    from autosched.runtime.link import link
    from codegen.backend import check_runs

    if is_compiled(args):
        check_compiled(args)
        module = api.load(args.model, args.trusted, args.device, args.denormals)
        module = _for_shapes(module, args)
    else:
        if runs:
            check_runs(target_of(args), "run kernels")
        module = link(*compiled_contents(args, None))
    check_threads(module.target)
    return module


def _for_shapes(module: Module, args: argparse.Namespace) -> Module:
    """Of a module for several shapes the one that --shape names; without it the module itself."""
    check_no_inputs(None, args.values, args.model, "leave it out")
    if args.shapes is None:
        return module
    wanted = dict(args.shapes)
    for one in module.modules:
        shapes = {spec.name: spec.shape for spec in one.inputs}
        if shapes | wanted == shapes:
            return one
    raise UsageError("it was not compiled for these shapes", args.model, f"it is {module!r}")


def compiled_contents(args: argparse.Namespace, constants: dict[str, Any] | None) -> Contents:
    """The compiled program, not loaded: it may be for another machine."""
    check_log(args.log, new=args.effort == "quick")
    subject = open_subject(args)
    if isinstance(subject, WorkloadSubject) and constants is not None:
        subject = subject.with_constants(constants)
    target = target_of(args)
    subject = in_precision_of(subject, args, target)
    with Waiting(f"compiling {subject.label}", args.quiet):
        contents = subject.contents(
            target, args.log, args.accuracy or "default", args.effort or "draft"
        )
    return with_denormals(contents, args.denormals)


def with_denormals(contents: Contents, denormals: Denormals | None) -> Contents:
    """The same program with what --denormals says, where that was given."""
    program, constants, objects, payloads = contents
    if denormals is not None:
        program = replace(program, denormals=denormals)
    return program, constants, objects, payloads


def check_log(log: str | None, new: bool = False) -> None:
    """Raise an error when a log is named that does not exist, or that is none.

    ``new``: it need not exist, records will be added to it.

    Raises:
        FileError: it does not exist.
        RecordError: it is something else than a log.
    """
    from autosched.records.store import open_store

    if log is None:
        return
    store = open_store(log)
    if not new and not store.exists():
        raise FileError("the log does not exist", store.name, "leave --log out, or tune first")
    store.check()


def is_compiled(args: argparse.Namespace) -> bool:
    """Whether MODEL is a module that `autosched compile` wrote."""
    return args.model is not None and args.model.endswith(COMPILED_SUFFIX)


def check_compiled(args: argparse.Namespace) -> None:
    """Raise UsageError when options are given that a compiled module has fixed already."""
    values = {
        "--log": args.log,
        "--target": None if args.target == "cpu" else args.target,
        "--threads": args.threads,
        "--args": args.args or None,
        "--configuration": args.configuration,
        "--effort": args.effort,
        "--accuracy": args.accuracy,
        "--precision": args.precision,
        "--precision-bound": args.precision_bound,
        "--precision-data": args.precision_data,
    }
    given = [option for option, value in values.items() if value is not None]
    if given:
        raise UsageError(
            f"{' and '.join(given)}: fixed in a compiled module",
            args.model,
            f"leave {'it' if len(given) == 1 else 'them'} out, or compile the model again",
        )
