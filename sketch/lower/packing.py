"""What is done to constants before a kernel reads them.

Packing is a pure re-index with zero padding, decided by a sketch and its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.lang.kept import kept
from sketch.lang.prepared import Allocator, LinearMap, Prepared
from sketch.lang.tensor import Placeholder
from sketch.lower.placement import Placement, place
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Pack

# Rows of a sketch whose packed constants are known, a few batches: finding them takes milliseconds.
_KNOWN_ROWS: Final = 256


@dataclass(frozen=True, slots=True)
class Packing:
    """Panels of ``width`` along dimension ``dim`` of an array of ``logical_shape``.

    Memory order: [panel, other dimensions, within the panel].  Hashable, so that one packed copy
    serves every use of the same constant.

    ``group``: (dimension, size): so many elements along another dimension lie together, innermost;
    that dimension, padded as well, counts groups then.
    """

    logical_shape: tuple[int, ...]
    dim: int
    width: int
    group: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the packed array."""
        groups = {} if self.group is None else dict((self.group,))
        panels = -(-self.logical_shape[self.dim] // self.width)
        extents = enumerate(self.logical_shape)
        rest = tuple(-(-e // groups.get(d, 1)) for d, e in extents if d != self.dim)
        return (panels, *rest, self.width, *groups.values())

    @property
    def key(self) -> str:
        """Stable text form."""
        group = "" if self.group is None else f", dim={self.group[0]} by {self.group[1]}"
        return f"panel(dim={self.dim}, width={self.width}{group})"

    def apply(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Pack ``array`` (shape ``logical_shape``, any dtype) into a new C-contiguous array."""
        return np.ascontiguousarray(self.ordered(array)).reshape(self.shape)

    def ordered(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """A view of ``array`` (a copy where it is padded) whose elements are in memory order."""
        tiles = {self.dim: self.width, **({} if self.group is None else dict((self.group,)))}
        padding = [(0, -extent % tiles.get(d, 1)) for d, extent in enumerate(array.shape)]
        padded = np.pad(array, padding) if any(map(any, padding)) else array
        split = [(e // tiles.get(d, 1), tiles.get(d, 1)) for d, e in enumerate(padded.shape)]
        blocked = padded.reshape([part for parts in split for part in parts])
        rest = [2 * d for d in range(array.ndim) if d != self.dim]
        inside = [2 * d + 1 for d in range(array.ndim) if d not in tiles]
        order = [2 * self.dim, *rest, *inside, *(2 * d + 1 for d in tiles)]
        return blocked.transpose(order)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What happens to a constant before a kernel can read it: at least one of the two."""

    prepared: Prepared | None
    packing: Packing | None

    @property
    def key(self) -> str:
        """Stable text form."""
        prepared = "" if self.prepared is None else self.prepared.key
        return ", ".join(part for part in (prepared, self.packing and self.packing.key) if part)

    def apply(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """The array that the kernel reads, from what the caller gives."""
        made = self.ordered(array)
        return (
            made if self.packing is None else np.ascontiguousarray(made).reshape(self.packing.shape)
        )

    def ordered(
        self,
        array: NDArray[np.generic],
        empty: Allocator = np.empty,
        period: int | None = None,
    ) -> NDArray[np.generic]:
        """Its elements in memory order, maybe in an array that is not contiguous: to be copied.

        Args:
            array: what the caller gives.
            empty: makes what is prepared.
            period: so many elements of ``array`` are repeated; None: none are known to be.
        """
        made = array
        if isinstance(self.prepared, LinearMap):
            made = self.prepared.apply(array, empty, period)
        elif self.prepared is not None:
            made = self.prepared.apply(array, empty)
        return made if self.packing is None else self.packing.ordered(made)


def preparations(sketch: Sketch, values: Mapping[DecisionId, int]) -> dict[str, Preparation]:
    """What each constant of ``sketch`` needs that is not read as it is, for a row of decisions."""
    ops = {t.name: t.op for t in sketch.dag.inputs if isinstance(t.op, Placeholder)}
    packings = _packings(sketch, values)
    return {
        name: Preparation(op.prepared, packings.get(name))
        for name, op in ops.items()
        if op.prepared is not None or name in packings
    }


def _packings(sketch: Sketch, values: Mapping[DecisionId, int]) -> Mapping[str, Packing]:
    """The packed constants of a row, by name.

    A kernel is bound several times: constants are made while it is compiled, it is measured in
    several bursts, checked and used, with others of its batch in between.
    """
    known, row = _known_packings(sketch), frozenset(values.items())
    found = known.get(row)
    if found is None:
        found = _find_packings(sketch, values)
        if len(known) >= _KNOWN_ROWS:
            known.clear()
        known[row] = found
    return found


@kept
def _known_packings(_: Sketch) -> dict[frozenset[tuple[DecisionId, int]], Mapping[str, Packing]]:
    """By row, of those that were asked for lately."""
    return {}


def _find_packings(sketch: Sketch, values: Mapping[DecisionId, int]) -> Mapping[str, Packing]:
    program = sketch.program
    ops = [(pack, program.operation(pack.tensor)) for pack in program.packs]
    constants = [(pack, op) for pack, op in ops if isinstance(op, Placeholder)]
    if not constants:
        return {}
    placement = place(program, dict(values), frozenset(pack.reader for pack, _ in constants))
    return {op.name: _packing(op.shape, pack, placement) for pack, op in constants}


def _packing(shape: tuple[int, ...], pack: Pack, placement: Placement) -> Packing:
    group = placement.packed_group(pack)
    taken = None if group is None else (group.dim, group.size)
    return Packing(shape, pack.dim, int(placement.panel_width(pack)), taken)
