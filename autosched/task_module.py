"""One task as a module: a tuned tensor program that runs on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.compilation import link
from autosched.errors import TaskError
from autosched.least_traffic import least_bytes
from autosched.runtime.assemble import Call, Wiring, assemble, check_no_nan
from autosched.runtime.module import Module
from autosched.runtime.program import StepInfo, TensorSpec
from autosched.search.recall import recall_best
from autosched.task import Task
from codegen.build import build
from codegen.driver import build_driver
from sketch.lower import lower
from sketch.packing import packings
from sketch.tensor import Placeholder, Tensor

Arrays = Mapping[str, NDArray[Any]]


def task_module(
    task: Task, constants: Arrays | None = None, log: str | PathLike[str] | None = None
) -> Module:
    """Compile a task's best candidate and bind its constants.

    Args:
        task: a program with one kernel.
        constants: an array for each placeholder that is marked constant; packed once, here.
        log: records of tuning; None: the schedule that the draft model predicts to be fastest.

    Raises:
        TaskError: a constant is missing, unknown, or of another shape or dtype.
    """
    found = recall_best(task, log) if log is not None else None
    best = task.space.draft_candidate() if found is None else found.candidate
    values = dict(best.values)
    dag = best.sketch.dag
    given = _check_constants(task, constants or {})
    packs = packings(best.sketch, values)
    bound = {
        name: packs[name].apply(array) if name in packs else array for name, array in given.items()
    }
    kernel = build(lower(best.sketch, values), task.target)
    outputs = [TensorSpec(*array) for array in dag.output_arrays]
    inputs = [TensorSpec(t.name, t.shape, t.dtype) for t in dag.inputs if t.name not in given]
    info = StepInfo(
        name=task.name,
        layers=(task.name,),
        op=task.name,
        shapes=", ".join("x".join(map(str, spec.shape)) for spec in (*inputs, *outputs)),
        flops=task.flops,
        bytes=least_bytes(task.dag),
        task=task.key,
        schedule="model" if found is None else "record",
    )
    wiring = Wiring(
        name=task.name,
        target=task.target,
        inputs=tuple(inputs),
        outputs=tuple((spec, spec.name) for spec in outputs),
        calls=(Call(kernel, tuple(argument.name for argument in kernel.arguments), info),),
        constants=bound,
        sizes={spec.name: _bytes(spec) for spec in (*inputs, *outputs)},
    )
    program, packed = assemble(wiring)
    driver = build_driver(task.target)
    objects = {kernel.symbol: kernel.object_code, driver.symbol: driver.object_code}
    return link(program, packed, objects)


def _bytes(spec: TensorSpec) -> int:
    return int(np.prod(spec.shape, dtype=np.int64)) * np.dtype(spec.dtype).itemsize


def _check_constants(task: Task, constants: Arrays) -> dict[str, NDArray[Any]]:
    wanted = {tensor.name: tensor for tensor in task.dag.inputs if _is_constant(tensor)}
    where = f"task {task.name}"
    if set(wanted) != set(constants):
        raise TaskError(
            f"constants {sorted(constants)} given, {sorted(wanted)} needed",
            where,
            "give an array for each placeholder that is marked constant",
        )
    for name, tensor in wanted.items():
        array = constants[name]
        if array.shape != tensor.shape or str(array.dtype) != tensor.dtype:
            raise TaskError(
                f"constant {name!r} is {array.dtype}{list(array.shape)}, "
                f"expected {tensor.dtype}{list(tensor.shape)}",
                where,
            )
    check_no_nan(constants)
    return dict(constants)


def _is_constant(tensor: Tensor) -> bool:
    return isinstance(tensor.op, Placeholder) and tensor.op.constant
