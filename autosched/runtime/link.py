"""Modules from what their files hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.backend import runtime_of
from autosched.runtime.elsewhere import ProgramElsewhere
from autosched.runtime.loaded import LoadedProgram
from autosched.runtime.module import Module
from autosched.runtime.multi_shape import MultiShapeModule
from autosched.runtime.program import ExecutionPlan
from autosched.system.limits import check_choice
from codegen.denormals import DENORMALS, Denormals

if TYPE_CHECKING:
    from autosched.runtime.archive import Contents


def link(
    program: ExecutionPlan,
    constants: NDArray[np.uint8],
    objects: Mapping[str, bytes],
    payloads: Mapping[str, bytes] | None = None,
    denormals: Denormals | None = None,
) -> Module:
    """Load machine code and bind it to its memory.

    A program for another machine becomes a module that can be saved and exported, and does not run.

    Args:
        program: buffers and steps.
        constants: packed, one block of bytes.
        objects: machine code by kernel.
        payloads: ONNX models of the host steps.
        denormals: what becomes of denormal numbers on a CPU; None: what the program says.

    Raises:
        OptionError: ``denormals`` is neither "flush" nor "keep".
        DeviceError: the device has no room, or cannot load the code.
        HostError: a host step needs the onnx package, or one that knows the operator.
    """
    if denormals is not None:
        check_choice("denormals", denormals, DENORMALS)
        program = replace(program, denormals=denormals)
    runtime = runtime_of(program.target)
    missing = runtime.code.missing(program.target)
    loaded: LoadedProgram = (
        runtime.load(program, constants, objects, payloads or {})
        if missing is None
        else ProgramElsewhere(program, missing)
    )
    return Module(program, constants, loaded, objects, payloads)


def link_all(modules: Sequence[Contents], denormals: Denormals | None = None) -> Module:
    """``link`` of one module; of several, which are one network for several shapes, all in one.

    Raises:
        AssemblyError: they are not for different shapes of one network.
    """
    linked = [link(*contents, denormals) for contents in modules]
    return linked[0] if len(linked) == 1 else MultiShapeModule(linked)
