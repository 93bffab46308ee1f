"""Which inputs a kernel's output may take the place of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codegen.passes.affine import flatten
from codegen.passes.places import coefficients, once
from codegen.passes.tile_blocks import has_unit_loops
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, Index, LoopNest, LoopVar, Scope, Store
from sketch.nest.walk import accesses, store_loads, stores

_NONE: Final[frozenset[str]] = frozenset()


def overwritable(nest: LoopNest, prepared: LoopNest) -> frozenset[str]:
    """Names of the inputs that may lie where the output is to lie.

    Each of their elements is read for one element of the output only, by what writes that element,
    in its place.
    It counts on loops that do not overlap, as lowering makes them, and on passes that write an
    element once unless they read it again.

    Args:
        nest: as it was lowered; it has one statement that writes the output, which comes to each
            element once.
        prepared: as it is emitted.  The passes have made copies of that statement, for some
            elements each; they may have given other work to the output's memory.
    """
    written = [(store, loops) for store, loops in stores(nest.roots) if _writes_output(store)]
    if len(written) != 1 or has_unit_loops(nest):
        return _NONE
    store, loops = written[0]
    if len(store.targets) != 1 or store.reducer is not None or not once(store.indices, loops):
        return _NONE
    inputs = {load.buffer for load in store_loads(store) if load.buffer.scope is Scope.INPUT}
    names = {b.name for b in inputs if _are_as_large(b, store.targets[0])}
    every = [store for store, _ in stores(prepared.roots)] if names else []
    return frozenset(name for name in names if all(_keeps(store, name) for store in every))


def _writes_output(store: Store) -> bool:
    return any(target.scope is Scope.OUTPUT for target in store.targets)


def _are_as_large(buffer: Buffer, output: Buffer) -> bool:
    """Whether an input has as many elements as the output, of as many bytes."""
    swizzled = buffer.swizzled or output.swizzled
    as_many = int(buffer.size) == int(output.size)
    return as_many and size_of(buffer.dtype) == size_of(output.dtype) and not swizzled


def _keeps(store: Store, name: str) -> bool:
    """Whether a statement leaves alone what others have still to read of an input.

    It reads of the input what it replaces, if anything, and nothing of the output.
    """
    outputs = [target for target in store.targets if target.scope is Scope.OUTPUT]
    loads = [load for load in store_loads(store) if load.buffer.name == name]
    if not outputs:
        return not loads and not _reads_output(store)
    place = _offset(outputs[0], store.indices)
    if place is None or store.reducer is not None or _reads_output(store):
        return False
    return all(_offset(load.buffer, load.indices) == place for load in loads)


def _reads_output(store: Store) -> bool:
    of_output = [b for b, _ in accesses(store) if b.scope is Scope.OUTPUT]
    return len(of_output) > sum(target.scope is Scope.OUTPUT for target in store.targets)


def _offset(buffer: Buffer, indices: Sequence[Index]) -> tuple[int, Mapping[LoopVar, int]] | None:
    """Of an element, as a constant and coefficients; None where it is not affine."""
    form, quasi = flatten(buffer, indices)
    return None if quasi else (form.const, coefficients(form))
