"""One task as a module: a tuned tensor program that runs on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.compilation.check import device_of
from autosched.compilation.released import released
from autosched.compilation.scheduled import Built, Scheduled, Source, expected_seconds
from autosched.compilation.unmeasured import accepted, unmeasured
from autosched.measure.inputs import random_inputs
from autosched.records.accuracy import Accuracy
from autosched.records.error_budget import held_to, with_constants
from autosched.records.identity import compatible
from autosched.records.store import AnyLog
from autosched.runtime.archive import Contents
from autosched.runtime.assemble import assemble, check_no_nan
from autosched.runtime.backend import runtime_of
from autosched.runtime.link import link
from autosched.runtime.module import Module
from autosched.runtime.program import StepInfo, TensorSpec
from autosched.runtime.untuned import untuned_warning
from autosched.runtime.wiring import Call, Wiring
from autosched.search.recall import build_recorded, build_usable
from autosched.system.errors import TaskError
from autosched.system.memory_limit import enough_memory, room_for
from autosched.system.user_warnings import notify
from autosched.tasks.candidate import Candidate
from autosched.tasks.compulsory_traffic import compulsory_bytes, written_bytes
from autosched.tasks.kernel import kernel_of
from autosched.tasks.spec import TaskSpec
from codegen.denormals import Denormals
from codegen.kernel import CompiledKernel
from sketch.analysis.function_calls import function_calls
from sketch.errors import quoted
from sketch.lang.dtypes import is_float, numpy_dtype
from sketch.lang.tensor import Placeholder, Tensor
from sketch.lower.packing import preparations

Arrays = Mapping[str, NDArray[Any]]


def task_module(
    task: TaskSpec,
    constants: Arrays | None = None,
    log: AnyLog | None = None,
    check: bool = True,
    denormals: Denormals = "flush",
    accuracy: Accuracy = "default",
) -> Module:
    """Compile a task's best candidate and bind its constants.

    Args:
        task: a program with one kernel.
        constants: an array for each placeholder that is marked constant; packed once, here.
        log: records of tuning; None: the schedule that the draft model predicts to be fastest.
        check: run a kernel without a record once and compare a sample of its results with the
            oracle's; not for targets whose code cannot run here.
        denormals: what becomes of denormal numbers on a CPU.
        accuracy: variants that it does not allow are not used.

    Raises:
        TaskError: a constant is missing, unknown, no array, or of another shape or dtype.
        WrongResultError: the kernel computes something else than the task says.
    """
    return link(*task_contents(task, constants, log, check, accuracy), denormals)


def task_contents(
    task: TaskSpec,
    constants: Arrays | None = None,
    log: AnyLog | None = None,
    check: bool = True,
    accuracy: Accuracy = "default",
    quick: bool = False,
) -> Contents:
    """What ``task_module`` consists of, for any machine.

    Args:
        task: the task and its target.
        constants: arrays of constant inputs by name; they are packed into the module.
        log: its path or URL; None: the draft model picks the schedule.
        check: run a kernel that no one compared with the oracle yet, on sampled regions.
        accuracy: records of variants that it does not allow are not used.
        quick: without a record, choose the schedule from few candidates.
    """
    with enough_memory(f"compiling task {task.name}"):
        return _build_contents(task, constants or {}, log, check, accuracy, quick)


def _build_contents(
    task: TaskSpec,
    constants: Arrays,
    log: AnyLog | None,
    check: bool,
    accuracy: Accuracy,
    quick: bool,
) -> Contents:
    given = _check_constants(task, constants)
    built = _built(task, log, check, with_constants(accuracy, given.values()), quick)
    scheduled, kernel = built.item, built.kernel
    best = scheduled.candidate
    values = dict(best.values)
    dag = best.sketch.dag
    prepared = preparations(best.sketch, values)
    bound = {
        name: prepared[name].apply(array) if name in prepared else array
        for name, array in given.items()
    }
    outputs = [TensorSpec(*array) for array in dag.output_arrays]
    inputs = [TensorSpec(t.name, t.shape, t.dtype) for t in dag.inputs if t.name not in given]
    info = StepInfo(
        name=task.name,
        layers=(task.name,),
        op=task.name,
        shapes=", ".join("x".join(map(str, spec.shape)) for spec in (*inputs, *outputs)),
        flops=task.flops,
        bytes=compulsory_bytes(task.dag),
        task=task.key,
        schedule=scheduled.source,
        algorithm=scheduled.algorithm,
        unit=scheduled.unit,
        written=written_bytes(task.dag),
        functions=tuple(function_calls(task.dag.stages).items()),
        computed=scheduled.computed_flops,
    )
    wiring = Wiring(
        name=task.name,
        target=task.target,
        inputs=tuple(inputs),
        outputs=tuple((spec, spec.name) for spec in outputs),
        calls=(Call(kernel, tuple(argument.name for argument in kernel.arguments), info),),
        constants=bound,
        sizes={spec.name: spec.size_bytes for spec in (*inputs, *outputs)},
    )
    program, packed = assemble(wiring)
    expected = partial(expected_seconds, scheduled)
    runtime = runtime_of(task.target)
    objects = runtime.files(kernel, expected) | runtime.common(task.target)
    return program, packed, objects, {}


def _built(
    task: TaskSpec, log: AnyLog | None, check: bool, accuracy: Accuracy, quick: bool
) -> Built:
    """The best record's kernel, or that of the draft model's favourite which is good enough."""

    def code(candidate: Candidate) -> CompiledKernel:
        return kernel_of(candidate, task.target)

    built = _known(task, log, accuracy, code)
    if built is None:
        item = unmeasured(task, quick, check, accuracy)
        built = Built(item, code(item.candidate))
    if not check or built.item.checked:
        return built
    with device_of(task.target) as device:
        while (item := accepted(built, accuracy, device=device)).candidate is not (
            built.item.candidate
        ):
            built = Built(item, code(item.candidate))
    return replace(built, item=item)


def _known(
    task: TaskSpec,
    log: AnyLog | None,
    accuracy: Accuracy,
    code: Callable[[Candidate], CompiledKernel],
) -> Built | None:
    """The kernel of the best record: of the log, of the release, or of another machine."""
    source: Source = "record"
    found = build_recorded(task, log, code, accuracy)
    if found is None or not compatible(found[1].record.target, task.target):
        shipped = released((task.key,), task.target)
        if found is not None:  # one of another machine: a third one's are no better
            shipped = tuple(r for r in shipped if compatible(r.target, task.target))
        records = held_to(shipped, task, accuracy)
        if known := build_usable(task, records, code):
            found, source = known, "release"
    if found is None:
        return None
    kernel, recalled = found
    return Built(Scheduled(task, recalled.candidate, source, recalled), kernel)


def contents_from_log(
    task: TaskSpec,
    constants: Arrays,
    log: AnyLog | None,
    accuracy: Accuracy = "default",
    quick: bool = False,
) -> Contents:
    """``task_contents``; warns when a log is given that has no record of the task.

    Args:
        task: the task and its target.
        constants: arrays of constant inputs by name; they are packed into the module.
        log: its path or URL; None: the draft model picks the schedule.
        accuracy: records of variants that it does not allow are not used.
        quick: without a record, choose the schedule from few candidates.
    """
    contents = task_contents(task, constants, log, accuracy=accuracy, quick=quick)
    untuned = untuned_warning(contents[0])
    if log is not None and untuned:
        notify([f"task {task.name}: {untuned}"])
    return contents


def random_constants(task: TaskSpec, seed: int = 0) -> dict[str, NDArray[Any]]:
    """An array for each constant of the task, scaled so that its results stay O(1)."""
    if not constants_of(task):
        return {}
    drawn = sum(math.prod(tensor.given_shape) for tensor in task.dag.inputs)
    with room_for(f"random constants of task {task.name}", drawn * np.dtype(np.float64).itemsize):
        arrays = random_inputs(task.dag, seed)
    return {tensor.name: arrays[tensor.name] for tensor in constants_of(task)}


def _check_constants(task: TaskSpec, constants: Arrays) -> dict[str, NDArray[Any]]:
    wanted = {tensor.name: tensor for tensor in constants_of(task)}
    where = f"task {task.name}"
    if not isinstance(constants, Mapping) or set(wanted) != set(constants):
        given = sorted(map(str, constants)) if isinstance(constants, Mapping) else quoted(constants)
        raise TaskError(
            f"constants {given} given, {sorted(wanted)} needed",
            where,
            "give a dict with an array for each placeholder that is marked constant",
        )
    arrays: dict[str, NDArray[Any]] = {}
    for name, tensor in wanted.items():
        array = arrays[name] = _as_array(constants[name], tensor.dtype, f"constant {name!r}", where)
        if array.shape != tensor.given_shape or str(array.dtype) != tensor.dtype:
            raise TaskError(
                f"constant {name!r} is {array.dtype}{list(array.shape)}, "
                f"expected {tensor.dtype}{list(tensor.given_shape)}",
                where,
            )
    check_no_nan(arrays)
    return arrays


def _as_array(given: Any, dtype: str, what: str, where: str) -> NDArray[Any]:
    """An array of whatever is like one; numbers without a dtype get ``dtype`` where it holds them.

    Raises:
        TaskError: it is no array of numbers.
    """
    try:
        array = np.asarray(given)
        if hasattr(given, "dtype") or array.dtype.kind not in "biuf":
            return array
        found = array.astype(numpy_dtype(dtype))
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, tensors of a GPU
        raise TaskError(f"{what} is no array: {error}", where, "give a NumPy array") from error
    return found if is_float(dtype) or np.array_equal(found, array) else array


def constants_of(task: TaskSpec) -> tuple[Tensor, ...]:
    """The placeholders of a task that are marked constant."""
    inputs = task.dag.inputs
    return tuple(t for t in inputs if isinstance(t.op, Placeholder) and t.op.constant)
