"""Tensor units: instructions that multiply and add small blocks, as data.

A unit is what its description computes; nothing else about it is known to rules.  What a back end
has no instruction for is compiled from the description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import cast
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class TensorUnit:
    """``acc[m, n] += lhs[m, k] * rhs[n, k]`` in the type of ``acc``, for all of a block at once.

    On CPUs n are the lanes of a vector, and the k elements of an operand lie together.  Sums of
    floats are fused multiply-adds one after the other, the last k first, each rounded to nearest;
    denormal numbers are 0, as operands and as results.

    Attributes:
        name: of the instruction and its width, for printing.
        m, n, k: extents of the block.
        lhs, rhs, acc: element types.
        needs: features of the target, all of them.
    """

    name: str
    m: int
    n: int
    k: int
    lhs: str
    rhs: str
    acc: str
    needs: tuple[str, ...] = ()

    def description(self) -> ComputeDAG:
        """What the unit computes, as a program: ``[m, k] x [n, k] -> [m, n]``."""
        lhs = placeholder((self.m, self.k), self.lhs, name="lhs")
        rhs = placeholder((self.n, self.k), self.rhs, name="rhs")
        k = reduce_axis(self.k, "k")
        acc = compute(
            (self.m, self.n),
            lambda m, n: reducers.sum(cast(lhs[m, k], self.acc) * cast(rhs[n, k], self.acc), k),
            name="acc",
        )
        return ComputeDAG([acc])


def _dot_products() -> tuple[TensorUnit, ...]:
    """Sums of products of four bytes or of two halves in the 32-bit lanes of a vector.

    Bytes are unsigned in one operand and signed in the other, whichever of them is the vector.
    """
    kinds = (("vpdpbusd", 4, "uint8", "int8"), ("vpdpbusd", 4, "int8", "uint8"),
             ("vpdpwssd", 2, "int16", "int16"))  # fmt: skip
    widths = ((16, ("avx512vnni",)), (8, ("avx512vnni", "avx512vl")), (8, ("avxvnni",)))
    return tuple(
        TensorUnit(f"{name}.{32 * n}", 1, n, k, lhs, rhs, "int32", needs)
        for name, k, lhs, rhs in kinds
        for n, needs in widths
    )


def _float_products() -> tuple[TensorUnit, ...]:
    """Sums of products of two 16-bit floats, which float32 holds exactly, in float32."""
    widths = ((16, ("avx512bf16",)), (8, ("avx512bf16", "avx512vl")))
    return tuple(
        TensorUnit(f"vdpbf16ps.{32 * n}", 1, n, 2, "bfloat16", "bfloat16", "float32", needs)
        for n, needs in widths
    )


UNITS: Final[tuple[TensorUnit, ...]] = (*_dot_products(), *_float_products())
"""All units that there are instructions for."""


def units_of(target: Target) -> tuple[TensorUnit, ...]:
    """The units of a target; of CPUs those as wide as its vectors."""
    return tuple(
        unit for unit in UNITS if target.has.issuperset(unit.needs) and unit.n == target.lanes()
    )
