"""CPU targets that code generation tests run on: what this machine has, and invented ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codegen.host import cpu_target, host_target
from codegen.llvm.jit import check_host
from sketch.errors import TargetError
from sketch.target.target import Target


def runnable() -> list[Target]:
    """One-thread targets of every instruction set that this machine can execute."""
    candidates = [host_target(1)]
    candidates += [cpu_target(name, 1) for name in ("cpu-sse2", "cpu-avx2", "cpu-avx512")]
    # invented: 8 lanes and 16 registers, whatever the machine is
    candidates.append(replace(host_target(1), vector_bytes=32, registers=16))
    return [target for target in candidates if _runs(target)]


def instruction_sets() -> list[Target]:
    """The runnable targets, without the invented one where a real one has its vectors.

    For tables of cases by targets; property tests draw from all.
    """
    *real, invented = runnable()
    shapes = [(target.vector_bytes, target.registers) for target in real]
    covered = (invented.vector_bytes, invented.registers) in shapes
    return real if covered else [*real, invented]


def over_instruction_sets(first: int = 0) -> list[Any]:
    """What to parametrise tests with: ``instruction_sets()[first:]``.

    Those with the vectors and registers of this machine, which comes first, are for the long tests.
    """
    own, *others = instruction_sets()
    found = [own, *(pytest.param(t, marks=_like(own, t)) for t in others)]
    return found[first:]


def _like(own: Target, other: Target) -> list[pytest.MarkDecorator]:
    same = (own.vector_bytes, own.registers) == (other.vector_bytes, other.registers)
    return [pytest.mark.slow] if same else []


def _runs(target: Target) -> bool:
    try:
        check_host(target)
    except TargetError:
        return False
    return True


def label(target: Target) -> str:
    return f"{target.arch}-{target.vector_bytes}"
