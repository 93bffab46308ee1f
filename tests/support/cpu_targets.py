"""CPU targets that code generation tests run on: what this machine has, and invented ones."""

from __future__ import annotations

from collections.abc import Sequence
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


def by_kind(targets: Sequence[Target]) -> list[Any]:
    """What to parametrise tests with: targets with the vectors and registers of an earlier one are
    for the long tests.
    """
    seen: set[tuple[int, int]] = set()
    found: list[Any] = []
    for target in targets:
        kind = (target.vector_bytes, target.registers)
        found.append(pytest.param(target, marks=pytest.mark.slow) if kind in seen else target)
        seen.add(kind)
    return found


def in_turns(values: Sequence[Any], targets: Sequence[Target]) -> list[Any]:
    """Pairs to parametrise tests with: kinds of targets take the values in turns in every run; all
    other pairs are for the long tests.
    """
    kinds = {(t.vector_bytes, t.registers): t for t in reversed(targets)}
    firsts = [target for target in targets if target in kinds.values()]
    return [
        pytest.param(
            *(value, target),
            marks=[pytest.mark.slow] * (target is not firsts[number % len(firsts)]),
            id=f"{value}-{label(target)}",
        )
        for number, value in enumerate(values)
        for target in targets
    ]


def _runs(target: Target) -> bool:
    try:
        check_host(target)
    except TargetError:
        return False
    return True


def label(target: Target) -> str:
    return f"{target.arch}-{target.vector_bytes}"
