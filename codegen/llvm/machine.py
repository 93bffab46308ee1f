"""LLVM's target machines: triple, CPU and features of a Target."""

from __future__ import annotations

from functools import cache
from typing import Literal

import llvmlite.binding as llvm

from sketch.errors import TargetError
from sketch.target.target import Target

_AARCH64 = "aarch64-unknown-linux-gnu"


@cache
def initialize() -> None:
    """Register LLVM's code generators, once per process."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Loop strength reduction takes three quarters of the compile time of loops with many
    # accumulators, preparation for code generation a fifth of the rest; the addresses that the
    # emitter writes are as good without them.  Scheduling after register allocation (a twelfth)
    # has nothing to offer to processors that reorder instructions themselves.
    llvm.set_option("autosched", "-disable-lsr")
    llvm.set_option("autosched", "-disable-cgp")
    llvm.set_option("autosched", "-disable-post-ra")
    # These passes found nothing in 113 of 115 kernels: the same object code in 4 % less time.
    llvm.set_option("autosched", "-disable-constant-hoisting")
    llvm.set_option("autosched", "-disable-postra-machine-licm")
    llvm.set_option("autosched", "-disable-postra-machine-sink")
    llvm.set_option("autosched", "-disable-replace-with-vec-lib")
    llvm.set_option("autosched", "-disable-partial-libcall-inlining")


def triple_of(target: Target) -> str:
    """The LLVM triple; ARM is recognised by its NEON feature."""
    return _AARCH64 if "+neon" in target.features.split(",") else llvm.get_default_triple()


def foreign_machine(target: Target) -> str:
    """What processors the code of a target is for, such as ``aarch64``; "" where this is one."""
    theirs, ours = (
        triple.partition("-")[0] for triple in (triple_of(target), llvm.get_default_triple())
    )
    return "" if theirs == ours else theirs


def create_machine(
    arch: str, features: str, triple: str, effort: Literal[0, 2] = 2
) -> llvm.TargetMachine:
    """A new target machine: position-independent code, small code model.

    The JIT's default code model silently reads wrong constants once an object with an external
    symbol has been loaded.

    Args:
        arch: LLVM's name of the processor.
        features: what it has, each with a sign.
        triple: of the machine.
        effort: LLVM's optimisation level; 0 where it only links.

    Raises:
        TargetError: LLVM does not know the target.
    """
    initialize()
    # LLVM ignores a CPU that it does not know, and ends the process if none is left with 64 bits.
    features = f"+64bit,{features}" if triple.startswith("x86_64") else features
    try:
        return llvm.Target.from_triple(triple).create_target_machine(
            cpu=arch, features=features, opt=effort, reloc="pic", codemodel="default"
        )
    except RuntimeError as error:
        raise TargetError(f"LLVM has no target {triple} {arch}: {error}") from error


@cache
def machine_for(arch: str, features: str, triple: str) -> llvm.TargetMachine:
    """A target machine for compiling, made once."""
    return create_machine(arch, features, triple)


def emit_object(text: str, target: Target) -> bytes:
    """Compile IR text to an object file."""
    machine = machine_for(target.arch, target.features, triple_of(target))
    module = llvm.parse_assembly(text)
    try:
        return bytes(machine.emit_object(module))
    finally:
        module.close()


def emit_assembly(text: str, target: Target) -> str:
    """Compile IR text to assembly, for people to read."""
    machine = machine_for(target.arch, target.features, triple_of(target))
    module = llvm.parse_assembly(text)
    return str(machine.emit_assembly(module))
