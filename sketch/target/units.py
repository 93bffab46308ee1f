"""Tensor units: instructions that multiply and add small blocks, as data.

A unit is what its description computes; nothing else about it is known to rules.  What a back end
has no instruction for is compiled from the description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import STORAGE_FLOATS, size_of
from sketch.lang.expr import Expr, cast
from sketch.lang.functions import round_tf32
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.target.fragments import (
    REGISTER_BYTES,
    Fragment,
    group_fragments,
    warp_fragments,
)
from sketch.target.gpu_targets import instructions_of
from sketch.target.target import Target

LANE_BYTES: Final = 4
# Of AMX: eight registers of 16 rows of 64 bytes.
TILES: Final = 8
MOST_TILE_RESULTS: Final = TILES - 2
"""Registers that may hold results: one for each operand is left."""
_TILE_ROWS: Final = 16
TILE_BYTES: Final = 64
# Of wgmma.
_GROUP_ROWS: Final = 64
_GROUP_TERM_BYTES: Final = 32
_GROUP_COLUMNS: Final = range(8, 256 + 1, 8)
_BYTE_COLUMNS: Final = (8, 24, *range(16, 256 + 1, 16))


@dataclass(frozen=True, slots=True)
class TensorUnit:
    """``acc[m, n] += lhs[m, k] * rhs[n, k]`` in the type of ``acc``, for all of a block at once.

    On CPUs n are the lanes of a vector, and the k elements of an operand lie together.  Of joint
    units one vector has all results of a block, row after row, and each operand likewise all rows,
    or all columns: m instructions compute m rows of a whole vector's columns.

    Sums of floats are fused multiply-adds one after the other, the last k first, each rounded to
    nearest.  On Arm two neighbouring products are added to each other first, then both to ``acc``,
    each time rounded to odd: toward 0, and then the last digit is 1 where anything was lost.
    (That is how a processor starts; in its extended mode it rounds once for both.)  On both
    denormal numbers are 0, as operands and as results.

    Units with tile registers take fewer rows and products as well.  Of the k elements of an operand
    those of a 32-bit lane lie together.  Of floats they sum the products of even k and of odd k in
    this order, then both sums, and add that to ``acc``.  Denormal float16 operands are no zeros.

    Units of a GPU are computed by the threads of a warp together, or of four warps; each has a part
    of the results, and of the operands where these are not in shared memory.  In which order they
    sum floats is not known.

    Attributes:
        name: of the instruction and its width, for printing.
        m, n, k: extents of the block; with tile registers the largest ones of m and k.
        lhs, rhs, acc: element types.
        needs: features of the target, all of them.
        tiles: tile registers, which operands and results are in; 0: they are vectors.
        rounds: elements are rounded to tf32 before they are multiplied.
        joint: rows of a block are in one vector.
        fragments: how threads have ``lhs``, ``rhs`` and ``acc``; None: one does all by itself.
    """

    name: str
    m: int
    n: int
    k: int
    lhs: str
    rhs: str
    acc: str
    needs: tuple[str, ...] = ()
    tiles: int = 0
    fragments: tuple[Fragment, Fragment, Fragment] | None = None
    rounds: bool = False
    joint: bool = False

    @property
    def columns(self) -> int:
        """Columns of a whole vector of results in one row: lanes of the loop that walks them."""
        return self.m * self.n if self.joint else self.n

    @property
    def together(self) -> int:
        """Elements of an operand that lie together."""
        return LANE_BYTES // size_of(self.lhs) if self.tiles else self.k

    @property
    def factor(self) -> str:
        """What elements of the first operand are multiplied as: their type, or tf32."""
        return "tf32" if self.rounds else self.lhs

    @property
    def lanes(self) -> int:
        """Threads that compute together."""
        return 1 if self.fragments is None else self.fragments[2].lanes

    @property
    def reads_shared(self) -> bool:
        """Whether operands are in shared memory, and results are there later."""
        return self.fragments is not None and not self.fragments[0].parts

    def description(self) -> ComputeDAG:
        """What the unit computes, as a program: ``[m, k] x [n, k] -> [m, n]``."""
        lhs = placeholder((self.m, self.k), self.lhs, name="lhs")
        rhs = placeholder((self.n, self.k), self.rhs, name="rhs")
        k = reduce_axis(self.k, "k")

        def factor(element: Expr) -> Expr:
            return round_tf32(element) if self.rounds else cast(element, self.acc)

        acc = compute(
            (self.m, self.n),
            lambda m, n: reducers.sum(factor(lhs[m, k]) * factor(rhs[n, k]), k),
            name="acc",
        )
        return ComputeDAG([acc])


def _dot_products() -> tuple[TensorUnit, ...]:
    """Sums of products of four bytes or of two halves in the 32-bit lanes of a vector.

    Bytes are unsigned in one operand and signed in the other, whichever of them is the vector; some
    processors also have products of signed ones.
    """
    kinds = (("vpdpbusd", 4, "uint8", "int8"), ("vpdpbusd", 4, "int8", "uint8"),
             ("vpdpwssd", 2, "int16", "int16"))  # fmt: skip
    widths = ((16, ("avx512vnni",)), (8, ("avx512vnni", "avx512vl")), (8, ("avxvnni",)))
    usual = tuple(
        TensorUnit(f"{name}.{32 * n}", 1, n, k, lhs, rhs, "int32", needs)
        for name, k, lhs, rhs in kinds
        for n, needs in widths
    )
    # with signs of both on x86; and those of Arm
    others = (
        ("vpdpbssd", 8, "int8", "int8", "avxvnniint8"),
        ("sdot", 4, "int8", "int8", "dotprod"),
        ("usdot", 4, "uint8", "int8", "i8mm"),
        ("usdot", 4, "int8", "uint8", "i8mm"),
    )
    return usual + tuple(
        TensorUnit(f"{name}.{32 * n}", 1, n, 4, lhs, rhs, "int32", (needs,))
        for name, n, lhs, rhs, needs in others
    )


def _float_products() -> tuple[TensorUnit, ...]:
    """Sums of products of two 16-bit floats, which float32 holds exactly, in float32."""
    kinds = (("vdpbf16ps", 16, ("avx512bf16",)), ("vdpbf16ps", 8, ("avx512bf16", "avx512vl")),
             ("bfdot", 4, ("bf16",)))  # fmt: skip
    return tuple(
        TensorUnit(f"{name}.{32 * n}", 1, n, 2, "bfloat16", "bfloat16", "float32", needs)
        for name, n, needs in kinds
    )


def _matrix_products() -> tuple[TensorUnit, ...]:
    """Products of two rows and two columns of 64 bits each, on Arm."""
    kinds = (("smmla", 8, "int8", "int8", "int32", "i8mm"),
             ("ummla", 8, "uint8", "uint8", "int32", "i8mm"),
             ("usmmla", 8, "uint8", "int8", "int32", "i8mm"),
             ("bfmmla", 4, "bfloat16", "bfloat16", "float32", "bf16"))  # fmt: skip
    return tuple(
        TensorUnit(f"{name}.128", 2, 2, k, lhs, rhs, acc, (needs,), joint=True)
        for name, k, lhs, rhs, acc, needs in kinds
    )


def _tile_products() -> tuple[TensorUnit, ...]:
    """Products of whole matrices: of bytes, signed or not, and of 16-bit floats."""
    kinds = (("tdpbusd", "uint8", "int8"), ("tdpbsud", "int8", "uint8"),
             ("tdpbssd", "int8", "int8"), ("tdpbuud", "uint8", "uint8"))  # fmt: skip
    n = TILE_BYTES // LANE_BYTES
    whole = tuple(
        TensorUnit(
            name, _TILE_ROWS, n, TILE_BYTES, lhs, rhs, "int32", ("amx-tile", "amx-int8"), TILES
        )
        for name, lhs, rhs in kinds
    )
    floats = tuple(
        TensorUnit(
            name,
            _TILE_ROWS,
            n,
            TILE_BYTES // 2,
            dtype,
            dtype,
            "float32",
            ("amx-tile", needs),
            TILES,
        )
        for name, dtype, needs in (
            ("tdpbf16ps", "bfloat16", "amx-bf16"),
            ("tdpfp16ps", "float16", "amx-fp16"),
        )
    )
    return whole + floats


def _warp_products() -> tuple[TensorUnit, ...]:
    """``mma.sync`` of PTX: 16 rows by 8 columns, of tf32, of halves and of bytes, signed or not.

    The longer ones take two registers of an operand for each row, the shorter ones one.
    """
    halves = (("f16", "float16", "mma-f16"), ("bf16", "bfloat16", "mma-bf16"))
    bytes_ = (("s8", "int8"), ("u8", "uint8"))
    kinds = [("tf32", "float32", "float32", "float32", "mma-tf32")]
    kinds += [(name, dtype, dtype, "float32", needs) for name, dtype, needs in halves]
    kinds += [
        (f"{lhs}.{rhs}", first, second, "int32", "mma-s8")
        for lhs, first in bytes_
        for rhs, second in bytes_
    ]
    found = []
    for name, lhs, rhs, acc, needs in kinds:
        pack = REGISTER_BYTES // size_of(lhs)
        for groups in (2, 1):
            k = 4 * pack * groups
            wanted = (needs, "mma-long") if groups > 1 else (needs,)
            found.append(
                TensorUnit(
                    f"mma.m16n8k{k}.{name}", 16, 8, k, lhs, rhs, acc, wanted,
                    fragments=warp_fragments(pack, groups), rounds=name == "tf32",
                )
            )  # fmt: skip
    return tuple(found)


def _group_products() -> tuple[TensorUnit, ...]:
    """``wgmma.mma_async`` of PTX: 64 rows by as many columns as are wanted."""
    halves = (("f16", "float16"), ("bf16", "bfloat16"))
    bytes_ = (("s8", "int8"), ("u8", "uint8"))
    kinds = [("tf32", "float32", "float32", "float32")]
    kinds += [(name, dtype, dtype, "float32") for name, dtype in halves]
    kinds += [
        (f"{lhs}.{rhs}", first, second, "int32") for lhs, first in bytes_ for rhs, second in bytes_
    ]
    return tuple(
        TensorUnit(
            f"wgmma.m{_GROUP_ROWS}n{n}k{k}.{name}", _GROUP_ROWS, n, k, lhs, rhs, acc, ("wgmma",),
            fragments=group_fragments(n), rounds=name == "tf32",
        )
        for name, lhs, rhs, acc in kinds
        for k in (_GROUP_TERM_BYTES // size_of(lhs),)
        for n in (_GROUP_COLUMNS if acc == "float32" else _BYTE_COLUMNS)
    )  # fmt: skip


UNITS: Final[tuple[TensorUnit, ...]] = (
    *_matrix_products(),
    *_dot_products(),
    *_float_products(),
    *_tile_products(),
    *_warp_products(),
    *_group_products(),
)
"""All units that there are instructions for."""


def units_of(target: Target) -> tuple[TensorUnit, ...]:
    """The units of a target; of CPUs those as wide as its vectors."""
    has, lanes = instructions_of(target), target.lanes()
    known = (unit for unit in UNITS if has.issuperset(unit.needs))
    return tuple(unit for unit in known if unit.fragments is not None or unit.columns == lanes)


def multiplied_halves(target: Target) -> tuple[str, ...]:
    """The 16-bit floats that units of a target multiply as they are."""
    factors = {unit.factor for unit in units_of(target)}
    return tuple(dtype for dtype in STORAGE_FLOATS if dtype in factors)
