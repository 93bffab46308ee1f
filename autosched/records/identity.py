"""Which machines are one and the same to a record, and which of the others is nearest.

Code depends on the processor's model, the instructions that are used, the SIMD width and the number
of threads.  LLVM's list of features also names what a processor does not have, and grows with every
release; the caches of a virtual machine change with its size.  None of that makes another target.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from sketch.target.gpu_card import GpuCard
from sketch.target.target import Target
from sketch.target.units import units_of

# Instructions that code is made of; LLVM names many more, for systems and for cryptography.
_USED: Final = frozenset(
    (
        "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "bmi", "bmi2",
        "lzcnt", "popcnt", "movbe", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl",
        "avx512vnni", "avx512bf16", "avx512fp16", "avxvnni", "avxvnniint8",
        "amx-tile", "amx-int8", "amx-bf16", "amx-fp16", "neon", "fullfp16", "dotprod", "i8mm",
        "bf16", "sve",
    )
)  # fmt: skip
# Lines of processors, without numbers at the end, whose cores have the units and caches of another.
_SAME_CORES: Final = {
    "cascadelake": "skylake-avx",
    "cooperlake": "skylake-avx",
    "emeraldrapids": "sapphirerapids",
    "graniterapids": "sapphirerapids",
}
# Sizes say how good a schedule is, not whether it runs, nor what it computes.
_SIZES: Final = ("l1_bytes", "l2_bytes", "l3_bytes", "cache_line_bytes")
# Fields that only steer the search.
_SEARCH: Final = ("instruction_budget", "fma_accumulators", "rates")
# Fields whose difference is not said by their values.
_SAID_APART: Final = ("features", "card")
_PLAIN: Final = Target("cpu", "")


def instructions(target: Target) -> tuple[str, ...]:
    """The instruction sets of a CPU that code is made of, sorted."""
    return tuple(sorted(target.has & _USED))


@lru_cache(maxsize=256)
def recorded(target: Target) -> Target:
    """The target as records keep it: of its features only the instructions that are used; checks
    of the emulated device are no part of the machine.
    """
    features = ",".join(f"+{part}" for part in instructions(target))
    return replace(target, features=features, card=replace(target.card, checked=False))


@lru_cache(maxsize=256)
def identity(target: Target) -> Target:
    """Equal for machines whose times compare: without the sizes of caches and search limits.

    GPUs of one architecture are one by the name of the card, and emulated or not.
    """
    plain: dict[str, Any] = {name: getattr(_PLAIN, name) for name in (*_SIZES, *_SEARCH)}
    card = GpuCard(name=target.card.name, emulated=target.card.emulated)
    return replace(recorded(target), **plain, card=card)


def compatible(recorded_for: Target, wanted: Target) -> bool:
    """Whether a time measured for ``recorded_for`` is a time for ``wanted``."""
    return identity(recorded_for) == identity(wanted)


def target_difference(recorded_for: Target, wanted: Target) -> tuple[str, ...]:
    """What differs between two machines, ``threads 2, not 4``; empty when records carry over."""
    have, want = identity(recorded_for), identity(wanted)
    lines = [
        f"{name} {getattr(have, name)}, not {getattr(want, name)}"
        for name in have.__dataclass_fields__
        if name not in _SAID_APART and getattr(have, name) != getattr(want, name)
    ]
    if have.card != want.card:
        lines.append(f"{have.label}, not {want.label}")
    mine, theirs = set(instructions(have)), set(instructions(want))
    if mine - theirs:
        lines.append(f"with {', '.join(sorted(mine - theirs))}")
    if theirs - mine:
        lines.append(f"without {', '.join(sorted(theirs - mine))}")
    return tuple(lines)


def executable(recorded_for: Target, wanted: Target) -> bool:
    """Whether schedules for one machine make sense on another: its vectors are no wider."""
    same_kind = recorded_for.kind == wanted.kind
    return same_kind and recorded_for.vector_bytes <= wanted.vector_bytes


def akin(recorded_for: Target, wanted: Target) -> bool:
    """Whether what is fastest on one machine is likely fast on another, of the same line of
    processors, such as znver4 and znver5, or with the same cores, such as sapphirerapids and
    emeraldrapids, with as many threads and registers and as wide vectors.
    """
    return _build(recorded_for) == _build(wanted)


def _build(target: Target) -> tuple[object, ...]:
    line = target.arch.rstrip("0123456789")
    line = _SAME_CORES.get(line, line)
    widths = target.threads, target.vector_bytes, target.registers
    return target.kind, line, *widths, identity(target).card


def has_units_of(recorded_for: Target, wanted: Target) -> bool:
    """Whether a machine has every tensor unit of another: without its unit, a schedule for one is
    the slow loops that describe it.
    """
    return set(units_of(recorded_for)) <= set(units_of(wanted))


def distance(recorded_for: Target, wanted: Target) -> tuple[float, ...]:
    """How far a machine is from another, to compare machines by; what matters most comes first."""
    have, want = set(instructions(recorded_for)), set(instructions(wanted))
    sizes = [_ratio(getattr(recorded_for, name), getattr(wanted, name)) for name in _SIZES]
    return (
        _ratio(recorded_for.vector_bytes, wanted.vector_bytes),
        _ratio(recorded_for.registers, wanted.registers),
        _ratio(recorded_for.threads, wanted.threads),
        float(recorded_for.arch != wanted.arch),
        float(len(have ^ want)),
        sum(sizes),
    )


def _ratio(one: int, other: int) -> float:
    """How often one size must be doubled or halved to give the other."""
    return abs(math.log2(max(one, 1) / max(other, 1)))
