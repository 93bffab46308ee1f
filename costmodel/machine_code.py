"""Text in LLVM's language as machine code of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A function, and the engine that its code lives in."""

    engine: Any
    function: Callable[..., None]

    def __call__(self, *arguments: int) -> None:
        self.function(*arguments)


def machine_code(text: str, name: str, arguments: Sequence[Any], optimised: bool) -> MachineCode:
    """The function ``name`` of a module, for the processor that this runs on.

    Args:
        text: of the module.
        name: of a function that returns nothing.
        arguments: types of ``ctypes``.
        optimised: whether LLVM chooses instructions and registers with care, which takes longer.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2 if optimised else 0,
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(None, *arguments)
    return MachineCode(engine, signature(engine.get_function_address(name)))
