"""Which inputs a kernel's output may take the place of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codegen.passes.affine import flatten
from codegen.passes.places import coefficients, once
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, Index, LoopNest, LoopVar, Scope, Store
from sketch.nest.walk import store_loads, stores

_NONE: Final[frozenset[str]] = frozenset()


def overwritable(nest: LoopNest) -> frozenset[str]:
    """Names of the inputs that lie where the output is to lie, if the caller wants that.

    Each of their elements is read for one element of the output only, that which takes its place:
    the nest has one statement, which comes to each element once.
    """
    written = list(stores(nest.roots))
    if len(written) != 1:
        return _NONE
    store, loops = written[0]
    if len(store.targets) != 1 or store.reducer is not None or not once(store.indices, loops):
        return _NONE
    (output,) = store.targets
    inputs = {load.buffer for load in store_loads(store) if load.buffer.scope is Scope.INPUT}
    return frozenset(buffer.name for buffer in inputs if _is_replaced(buffer, output, store))


def _is_replaced(buffer: Buffer, output: Buffer, store: Store) -> bool:
    """Whether all that is read of an input is the element where the result goes."""
    if int(buffer.size) != int(output.size) or size_of(buffer.dtype) != size_of(output.dtype):
        return False
    if output.scope is not Scope.OUTPUT or buffer.swizzled or output.swizzled:
        return False
    place = _offset(output, store.indices)
    read = [load.indices for load in store_loads(store) if load.buffer is buffer]
    return place is not None and all(_offset(buffer, indices) == place for indices in read)


def _offset(buffer: Buffer, indices: Sequence[Index]) -> tuple[int, Mapping[LoopVar, int]] | None:
    """Of an element, as a constant and coefficients; None where it is not affine."""
    form, quasi = flatten(buffer, indices)
    return None if quasi else (form.const, coefficients(form))
