"""Which accesses stay inside their buffers, so that nothing has to guard them."""

from __future__ import annotations

from codegen.llvm.scope import LoopScope
from sketch.nest.intervals import value_interval
from sketch.nest.loopnest import Affine, Buffer, Index, LoopVar
from sketch.nest.walk import index_variables


class IndexBounds:
    """Answers for a place in the code, once for each index and the values of unrolled variables."""

    def __init__(self, scope: LoopScope) -> None:
        self.scope = scope
        self._epoch = -1
        self._known: dict[tuple[object, ...], bool] = {}
        # by the identity of indices, which the nest keeps alive
        self._variables: dict[int, tuple[LoopVar, ...]] = {}

    def contain(self, buffer: Buffer, indices: tuple[Index, ...]) -> bool:
        """Whether an access is inside its buffer in every lane, whatever the loops' values are."""
        if self._epoch != self.scope.epoch:
            self._known.clear()
            self._epoch = self.scope.epoch
        places = zip(indices, buffer.shape, strict=True)
        return all(self._contain(index, int(extent)) for index, extent in places)

    def _contain(self, index: Index, extent: int) -> bool:
        used = self._variables.get(id(index))
        if used is None:
            used = self._variables[id(index)] = tuple(index_variables(index))
        key = (id(index), extent, self.scope.lane, *map(self.scope.static.get, used))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._find(index, extent)
        return known

    def _find(self, index: Index, extent: int) -> bool:
        if isinstance(index, Affine):
            bounds: tuple[int, int] | None = self.scope.bounds(index)
        else:
            bounds = value_interval(index.expr, self.scope.bounds)
        return bounds is not None and bounds[0] >= 0 and bounds[1] < extent
