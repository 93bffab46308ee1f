"""What the lanes of a warp touch at the same time: shared memory by banks, global by sectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.quantity import Floats, Quantity, Rows, stack, to_quantity
from sketch.nest.loopnest import Swizzle
from sketch.population.tape import recordable

# CUDA C++ Programming Guide, "Compute Capabilities": the same on all of them.
_BANKS: Final = 32
_WORD_BYTES: Final = 4
SECTOR_BYTES: Final = 32


def wavefronts(
    programs: Rows,
    lanes: int,
    element_bytes: int,
    loops: Sequence[tuple[Quantity, Quantity]],
    swizzle: Swizzle | None = None,
) -> Floats:
    """Passes that shared memory needs for one element a lane, exactly.

    Args:
        programs: 0 .. P-1.
        lanes: of a warp.
        element_bytes: size of an element.
        loops: (extent, elements the address moves by in a trip) of the loops that lanes share out,
            outermost first.
        swizzle: of the rows that are accessed.

    Returns:
        [P]: 1 without conflicts; 32 where all lanes meet in one bank.
    """
    addresses = _addresses(programs, lanes, loops)
    if swizzle is not None:
        rows = stack(programs, to_quantity(swizzle.row), to_quantity(swizzle.pieces))
        addresses = _swizzled(addresses, rows, swizzle.piece)
    return _passes(addresses, element_bytes)


def sectors(
    programs: Rows, lanes: int, element_bytes: int, loops: Sequence[tuple[Quantity, Quantity]]
) -> Floats:
    """32-byte sectors that one access of a warp touches.

    Args:
        programs: 0 .. P-1.
        lanes: of a warp.
        element_bytes: size of an element.
        loops: extent and stride (in elements) of each loop over lanes, as in ``wavefronts``.

    Returns:
        [P]: 1 where all lanes read one element, 4 for 32 floats one after another.
    """
    return _sectors(_addresses(programs, lanes, loops), element_bytes)


def distinct(programs: Rows, lanes: int, loops: Sequence[tuple[Quantity, Quantity]]) -> Floats:
    """[P]: elements that a warp touches at once; arguments as ``wavefronts``."""
    return _distinct(_addresses(programs, lanes, loops))


def reordered(programs: Rows, steps: Sequence[Quantity], swizzle: Swizzle) -> Floats:
    """Whether the pieces of rows have another order from one value of a loop to the next.

    Args:
        programs: 0 .. P-1.
        steps: elements that an address moves by in a trip of each loop.
        swizzle: of the rows.

    Returns:
        [P]: 1 where they have, else 0.
    """
    rows = stack(programs, to_quantity(swizzle.row), to_quantity(swizzle.pieces))
    return _moved(stack(programs, *steps, 0.0), rows)


def _addresses(
    programs: Rows, lanes: int, loops: Sequence[tuple[Quantity, Quantity]]
) -> NDArray[np.int64]:
    """[lanes, P]: element that each lane of the first warp accesses."""
    extents = stack(programs, *(extent for extent, _ in loops), 1.0)
    steps = stack(programs, *(step for _, step in loops), 0.0)
    return _decoded(extents, steps, lanes)


@recordable
def _decoded(extents: Floats, steps: Floats, lanes: int) -> NDArray[np.int64]:
    extents, steps = extents.astype(np.int64), steps.astype(np.int64)
    rest = np.broadcast_to(np.arange(lanes)[:, None], (lanes, extents.shape[1]))
    address = np.zeros_like(rest)
    for extent, step in zip(extents[::-1], steps[::-1], strict=True):
        address = address + rest % extent * step
        rest = rest // extent
    # Lanes beyond the threads of a block repeat the first ones: they touch nothing else.
    return address


@recordable
def _swizzled(address: NDArray[np.int64], rows: Floats, piece: int) -> NDArray[np.int64]:
    row, pieces = rows.astype(np.int64)
    moved: NDArray[np.int64] = address ^ address // row % pieces * piece
    return moved


@recordable
def _moved(steps: Floats, rows: Floats) -> Floats:
    row, pieces = rows
    moved: Floats = ((steps % (row * pieces) != 0.0).any(axis=0) & (pieces > 1.0)).astype(
        np.float64
    )
    return moved


@recordable
def _passes(address: NDArray[np.int64], element_bytes: int) -> Floats:
    words = np.sort(address * element_bytes // _WORD_BYTES, axis=0)
    fresh = np.concatenate([np.ones_like(words[:1]), words[1:] != words[:-1]])
    programs = words.shape[1]
    place = words % _BANKS * programs + np.arange(programs)
    counts = np.bincount(place.ravel(), fresh.ravel(), _BANKS * programs)
    most: Floats = counts.reshape(_BANKS, programs).max(axis=0)
    return most


@recordable
def _sectors(address: NDArray[np.int64], element_bytes: int) -> Floats:
    return _count_distinct(address * element_bytes // SECTOR_BYTES)


@recordable
def _distinct(address: NDArray[np.int64]) -> Floats:
    return _count_distinct(address)


def _count_distinct(values: NDArray[np.int64]) -> Floats:
    ordered = np.sort(values, axis=0)
    count: Floats = 1.0 + (ordered[1:] != ordered[:-1]).sum(axis=0)
    return count
