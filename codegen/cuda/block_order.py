"""The order in which blocks start, as arithmetic on their number.

    rows of 4 blocks, 2 together:    0 1 2 3  ->  0 2 4 6
                                     4 5 6 7      1 3 5 7
    the last row is alone:           8 9 ..       8 9 10 11

The hardware starts blocks in the order of blockIdx; each takes the work of the block that stands
at its turn.  Which block does what changes nothing else: blocks do not depend on each other.
"""

from __future__ import annotations

from codegen.cuda.device import Binding, points


def number_of_block(blocks: tuple[Binding, ...]) -> tuple[tuple[str, ...], str]:
    """The number, row by row, of the block whose turn it is, as C++ text.

    Args:
        blocks: decode that number; those along one of them start together.

    Returns:
        (lines that define what it is made of, itself).
    """
    for position, binding in enumerate(blocks):
        inner, rows = points(blocks[position + 1 :]), binding.extent
        together = min(binding.together, rows)
        if together > 1 and inner > 1:
            whole = rows * inner if position and points(blocks[:position]) > 1 else 0
            return _grouped(rows, inner, together, whole)
    return (), "blockIdx.x"


def _grouped(rows: int, inner: int, together: int, whole: int) -> tuple[tuple[str, ...], str]:
    """``whole``: blocks of which there are several such; 0: of all of them."""
    size = together * inner
    turn = f"blockIdx.x % {whole}" if whole else "blockIdx.x"
    first = f"turn / {size} * {together}"
    left = f"{rows} - first_row < {together} ? {rows} - first_row : {together}"
    lines = (
        f"const index_t turn = {turn};",
        f"const index_t first_row = {first};",
        f"const index_t rows = {left if rows % together else together};",
        f"const index_t place = turn % {size};",
    )
    number = f"(first_row + place % rows) * {inner} + place / rows"
    return lines, f"blockIdx.x / {whole} * {whole} + {number}" if whole else number
