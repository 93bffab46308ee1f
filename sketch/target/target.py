"""The machine that code is made for: every number of a machine stands here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final, Literal, get_args

from sketch.errors import TargetError, quoted
from sketch.html import html_table
from sketch.target.code_limits import USUAL_LIMITS, CodeLimits
from sketch.target.gpu_card import NO_CARD, GpuCard
from sketch.target.rates import USUAL_RATES, Rates

TargetKind = Literal["cpu", "cuda"]
_SHOWN: Final = ("kind", "arch", "threads", "vector_bytes", "l1_bytes", "l2_bytes", "l3_bytes")
_TEXTS: Final = ("kind", "arch", "features")
_POSITIVE: Final = (
    "threads", "vector_bytes", "registers", "fma_accumulators", "cache_line_bytes",
    "instruction_budget",
)  # fmt: skip
# No machine has more of anything; it keeps what is computed with these numbers within 64 bits.
_MOST: Final = 1 << 48
MOST_THREADS: Final = 1 << 12
"""Starting a million would leave none to the other programs of a machine."""
_MOST_OF: Final[Mapping[str, int]] = {"vector_bytes": 1 << 12, "threads": MOST_THREADS}


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU or a GPU, as the search and the code generators see it.

    Attributes:
        kind: "cpu" or "cuda".
        arch: LLVM's name of the CPU (``znver5``, ``sapphirerapids``) or ``sm_90``.
        features: LLVM feature string of the CPU, ``+avx512f,...``; empty for GPUs.
        threads: worker threads (CPU), or streaming multiprocessors (GPU).
        vector_bytes: width of a SIMD register; 16 (widest load of a thread) for GPUs.
        registers: SIMD registers (CPU), or 32-bit registers a thread may use (GPU).
        fma_accumulators: independent accumulators that hide the FMA latency: latency * units
            (4 cycles * 2 units = 8, and half as much again for scheduling slack).
        l1_bytes, l2_bytes, l3_bytes: data cache sizes; l1 and l2 a core, l3 shared.
        instruction_budget: vector instructions of straight-line code a kernel may have; bounds
            compile time (about 0.06 ms each) and the instruction cache.
        shared_memory_bytes, threads_per_block, warp_size, registers_per_block: GPU limits.
        max_vthreads: most virtual threads a GPU thread interleaves (warp size / 4, as Ansor).
        rates: throughputs and latencies, by which the draft model ranks schedules.
        code: how much code the code generator makes.
        card: clock, units and memory of a GPU, and whether it is emulated.

    Raises:
        TargetError: a field that no machine has; says which.
    """

    kind: TargetKind
    arch: str
    features: str = ""
    threads: int = 1
    vector_bytes: int = 16
    registers: int = 16
    fma_accumulators: int = 12
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    l3_bytes: int = 16 * 1024 * 1024
    cache_line_bytes: int = 64
    instruction_budget: int = 1024
    shared_memory_bytes: int = 0
    threads_per_block: int = 0
    warp_size: int = 0
    registers_per_block: int = 0
    max_vthreads: int = 0
    rates: Rates = USUAL_RATES
    code: CodeLimits = USUAL_LIMITS
    card: GpuCard = NO_CARD

    def __post_init__(self) -> None:
        if self.kind not in get_args(TargetKind):
            raise TargetError(f"a target of kind {self.kind!r}", hint='kinds are "cpu" and "cuda"')
        for name in self.__dataclass_fields__:
            if name not in _NESTED:
                _check(name, getattr(self, name))
        for name, kind in _NESTED.items():
            _check_nested(name, getattr(self, name), kind)
        for feature in filter(None, self.features.split(",")):
            if feature[0] not in "+-":  # LLVM would end the process
                raise TargetError(f"feature {feature!r} has no sign", hint="write +avx2 or -avx2")
        if self.vector_bytes & (self.vector_bytes - 1):
            raise TargetError(f"vector_bytes is {self.vector_bytes}", hint="give a power of two")

    def __repr__(self) -> str:
        """Short: LLVM knows hundreds of features."""
        return f"Target({', '.join(map('='.join, _facts(self)))})"

    def _repr_html_(self) -> str:
        return html_table(f"Target {self.label}", ("", ""), _facts(self), (0, 1))

    @property
    def label(self) -> str:
        """What the machine is called: ``znver4``, ``h200``, ``emulated h200``."""
        name = self.card.name or self.arch
        return f"emulated {name}" if self.card.emulated else name

    @property
    def most_shared_bytes(self) -> int:
        """Shared memory that a block can have, if it asks for it at launch."""
        return max(self.shared_memory_bytes, self.card.shared_block_bytes)

    @property
    def has(self) -> frozenset[str]:
        """The features that a CPU has, by LLVM's names without their signs."""
        return _named(self.features)

    def lanes(self, dtype_bytes: int = 4) -> int:
        """Elements of ``dtype_bytes`` in a SIMD register."""
        return max(1, self.vector_bytes // dtype_bytes)

    def with_threads(self, threads: int) -> Target:
        """The same machine, using ``threads`` threads.

        Raises:
            TargetError: there is less than one thread, or far too many.
        """
        return replace(self, threads=threads)

    def compact_json(self) -> dict[str, Any]:
        """Fields by name, without those that are zero because such a machine does not have them."""
        return {
            name: value
            for name, value in self.to_json().items()
            if value or self.__dataclass_fields__[name].default != value
        }

    def to_json(self) -> dict[str, Any]:
        """All fields by name, for records; of nested ones those that are not usual."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in _NESTED:
            unusual = _unusual(data.pop(name))
            if unusual:
                data[name] = unusual
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Target:
        """The inverse of ``to_json``; raises TargetError on unknown or missing fields."""
        try:
            nested = {name: _NESTED[name](**data[name]) for name in _NESTED if name in data}
            return Target(**{**data, **nested})
        except TypeError as error:
            raise TargetError(f"not a target: {quoted(dict(data))} ({error})") from error


_Nested = Rates | CodeLimits | GpuCard
_NESTED: Final = {"rates": Rates, "code": CodeLimits, "card": GpuCard}


def _facts(target: Target) -> list[tuple[str, str]]:
    """What people look for, by the names of fields; of features how many there are."""
    values = [(name, getattr(target, name)) for name in _SHOWN]
    values += [("features", len(target.has)), ("card", target.label if target.card.name else "")]
    return [(name, str(value)) for name, value in values if value]


@lru_cache(maxsize=64)  # passes ask again and again
def _named(features: str) -> frozenset[str]:
    return frozenset(part[1:] for part in features.split(",") if part.startswith("+"))


def _unusual(nested: _Nested) -> dict[str, float | str]:
    """The fields that differ from their defaults."""
    values = ((part.name, getattr(nested, part.name), part.default) for part in fields(nested))
    return {name: value for name, value, default in values if value != default}


def _check_nested(name: str, value: object, kind: type[_Nested]) -> None:
    if not isinstance(value, kind):
        raise TargetError(
            f"a target's {name} is {quoted(value)}", hint=f"give {kind.__name__}(...)"
        )
    for part in fields(value):
        number, usual = getattr(value, part.name), part.default
        allowed = (int, float) if isinstance(usual, float) else (type(usual),)
        if type(number) not in allowed:
            raise TargetError(f"a target's {name}.{part.name} is {quoted(number)}")
        if isinstance(usual, int | float) and not _in_range(number, usual):
            raise TargetError(
                f"a target's {name}.{part.name} is {quoted(number)}",
                hint="give a positive number",
            )


def _in_range(number: float, usual: float) -> bool:
    """Positive, or zero where that is usual."""
    return math.isfinite(number) and 0 <= number <= _MOST and (number > 0 or usual == 0)


def _check(name: str, value: object) -> None:
    if name in _TEXTS:
        if not isinstance(value, str):
            raise TargetError(f"a target's {name} is {quoted(value)}", hint="give text")
        if name == "arch" and not (value.isprintable() and len(value.split()) <= 1):
            raise TargetError(
                f"a target's arch is {quoted(value)}", hint="give the name of a processor, one word"
            )
        return
    least = 1 if name in _POSITIVE else 0
    most = _MOST_OF.get(name, _MOST)
    if type(value) is not int or not least <= value <= most:
        raise TargetError(
            f"a target's {name} is {quoted(value)}",
            hint=f"give an int, {least} or more, at most {most}",
        )
