"""What follows a stage element by element, and is computed over the same axes as the stage."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Load
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute, StoreMap


def readers(dag: ComputeDAG, op: Compute) -> list[Compute]:
    """The stages that read ``op``, or what is computed of it, each once."""
    found: dict[int, Compute] = {}
    pending = [*dag.consumers(op)]
    while pending:
        reader = pending.pop(0)
        if id(reader) not in found:
            found[id(reader)] = reader
            pending += dag.consumers(reader)
    return list(found.values())


def is_element_wise(op: Compute, origin: Compute, joined: Collection[int]) -> bool:
    """Whether a stage is ``origin``, or an element-wise function of what is computed of it.

    Args:
        op: the stage.
        origin: the stage where it begins.
        joined: ids of ``origin`` and its readers.
    """
    if op is origin:
        return True
    if op.reduce is not None or op.shape != origin.shape or len(op.bodies) != 1:
        return False
    loads = [node for node in walk(op.bodies[0]) if isinstance(node, Load)]
    return all(load.indices == op.axes for load in loads if id(load.tensor.op) in joined)


def joined_stages(
    dag: ComputeDAG, op: Compute, store: Callable[[Compute], StoreMap | None]
) -> dict[int, StoreMap | None] | None:
    """The ids of ``op`` and of what follows it element by element, and where each writes: None is
    an array of its own.  None where something else follows, or an output cannot be stored.

    Args:
        dag: the program.
        op: the stage where it begins.
        store: of an output; None: there is no such store.
    """
    joined = {id(op)} | {id(reader) for reader in readers(dag, op)}
    stages = [stage for stage in dag.stages if id(stage) in joined]
    if not all(is_element_wise(stage, op, joined) for stage in stages):
        return None
    outputs = {id(tensor.op) for tensor in dag.outputs}
    stores = {id(stage): store(stage) if id(stage) in outputs else None for stage in stages}
    lost = any(where is None for key, where in stores.items() if key in outputs)
    return None if lost else stores
