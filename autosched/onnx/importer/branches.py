"""``If``: the branch that a constant condition takes, or both, of which each result is chosen.

If(condition, A -> x, B -> y)  ->  x, y = A, B;  Where(condition, x, y)

Kernels have no branches, and neither do values outside of them have types that depend on data: what
both branches compute without side effects is computed, and the condition picks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import onnx
from numpy.typing import NDArray
from onnx import helper

from autosched.graph.errors import ModelImportError
from autosched.graph.ops.elementwise import Where
from autosched.graph.ops.shape import Reshape
from autosched.host.node_names import made_unique
from autosched.onnx.importer.domains import DEFAULT_DOMAINS
from autosched.onnx.importer.load import array_of
from autosched.onnx.importer.piece import Arrays
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.system.user_warnings import notify
from sketch.lang.dtypes import is_float

SIDES: Final = ("then_branch", "else_branch")
"""The branches of an ``If``: where its condition holds, and where it does not."""


@dataclass(frozen=True, slots=True, eq=False)
class InlinedBranch:
    """A branch as a part of the graph around it.

    Attributes:
        nodes: in topological order, with names of their own.
        constants: its initializers.
        results: names of its results, which may be values of the graph around it.
    """

    nodes: list[onnx.NodeProto]
    constants: dict[str, NDArray[Any]]
    results: tuple[str, ...]

    def emitting(self, outputs: Sequence[str]) -> list[onnx.NodeProto]:
        """Its nodes, and what gives its results the names ``outputs``; empty ones are not read."""
        pairs = zip(self.results, outputs, strict=True)
        return [
            *self.nodes,
            *(helper.make_node("Identity", [inner], [name]) for inner, name in pairs if name),
        ]


def is_choice(node: onnx.NodeProto) -> bool:
    """Whether a node has two branches that its results come from."""
    if node.op_type != "If" or node.domain not in DEFAULT_DOMAINS or not node.input:
        return False
    graphs = [item.g for item in node.attribute if item.name in SIDES]
    return len(graphs) == len(SIDES) and all(len(g.output) == len(node.output) for g in graphs)


def taken_side(node: onnx.NodeProto, arrays: Arrays) -> str | None:
    """The branch that an ``If`` with a constant condition takes; None for all other nodes."""
    condition = arrays.get(node.input[0]) if is_choice(node) else None
    if condition is None or condition.size != 1:
        return None
    return SIDES[0] if bool(condition.reshape(-1)[0]) else SIDES[1]


def branch_of(node: onnx.NodeProto, side: str, prefix: str) -> InlinedBranch:
    """A branch of an ``If``; all values that it defines get ``prefix``.

    Args:
        node: with such a branch.
        side: one of ``SIDES``.
        prefix: of no other name in the model.

    Raises:
        ModelImportError: the data of an initializer do not fit its shape.
    """
    graph = next(item.g for item in node.attribute if item.name == side)
    own = {tensor.name: f"{prefix}/{tensor.name}" for tensor in graph.initializer}
    defined = {name: f"{prefix}/{name}" for inner in graph.node for name in inner.output if name}
    names = own | defined
    return InlinedBranch(
        made_unique(graph.node, prefix, own),
        {own[tensor.name]: array_of(tensor) for tensor in graph.initializer},
        tuple(names.get(info.name, info.name) for info in graph.output),
    )


def free_prefix(label: str, names: Collection[str]) -> str:
    """``label``, or that with a number, so that ``prefix/name`` is no name there is."""
    candidates = (f"{label}_{number}" if number else label for number in count())
    return next(
        prefix for prefix in candidates if not any(name.startswith(f"{prefix}/") for name in names)
    )


def equal_results(
    sides: Sequence[Sequence[str] | None], outputs: Sequence[str], arrays: Arrays
) -> dict[str, NDArray[Any]]:
    """Those ``outputs`` of an ``If`` that are the same constant in both branches.

    Args:
        sides: results of both branches; None for those of one that cannot be computed.
        outputs: the names that they get.
        arrays: constants known so far, by name.
    """
    found: dict[str, NDArray[Any]] = {}
    for name, *results in zip(outputs, *(side or () for side in sides), strict=False):
        first, second = (arrays.get(result) for result in results)
        if first is None or second is None or first.dtype != second.dtype:
            continue
        if first.shape == second.shape and first.tobytes() == second.tobytes():
            found[name] = first
    return found


def import_choice(site: Site, sides: Sequence[Sequence[str] | None], wanted: Iterable[int]) -> None:
    """Choose each result of an ``If`` whose branches are part of the graph.

    Nothing of the other branch reaches a result: neither NaN nor infinities.

    Args:
        site: the ``If``.
        sides: results of both branches; None for those of one that cannot be computed for the
            shapes that the model's inputs have: they are NaN.
        wanted: which results are read.

    Raises:
        UnsupportedError: results have no static types, or two different ones; or NaN is none of
            their numbers.
        ModelImportError: neither branch can be computed, or the condition is no single element.
    """
    if not any(sides):
        raise ModelImportError(
            "neither branch can be computed for the shapes that the model's inputs have",
            f"node {site.label} (If)",
            "check the model and the shapes given",
        )
    _check_condition(site)
    condition = _value(site, site.node.input[0])
    if site.rank(0):
        condition = site.step(Reshape(()), [condition])
    for index in wanted:
        operands = [None if side is None else _value(site, side[index]) for side in sides]
        site.emit(Where(), [condition, *_alike(site, operands)], index)
    notify(
        f"If {site.label!r}: its {side} cannot be computed for the shapes that the model's inputs "
        "have: where it is taken, results are NaN; values= of from_onnx fixes inputs that decide"
        for side, results in zip(SIDES, sides, strict=True)
        if results is None
    )


def _check_condition(site: Site) -> None:
    """Raise ModelImportError where the condition is known to have other than one element."""
    name = site.node.input[0]
    if (name in site.builder.types or name in site.arrays) and site.type(0).size != 1:
        raise ModelImportError(
            f"its condition has type {site.type(0)}, it must have one element",
            f"node {site.label} (If)",
            "check the model and the shapes given",
        )


def _alike(site: Site, operands: Sequence[str | None]) -> list[str]:
    """Two values of one type; for None a number that is broadcast to the other's."""
    kinds = [site.builder.types[operand] for operand in operands if operand is not None]
    if len(set(kinds)) > 1:
        raise UnsupportedError(f"its branches give {kinds[0]} and {kinds[1]}")
    if None in operands and not is_float(kinds[0].dtype):
        raise UnsupportedError("one of its branches cannot be computed for these shapes")
    return [
        site.scalar("impossible", math.nan, kinds[0].dtype) if operand is None else operand
        for operand in operands
    ]


def _value(site: Site, name: str) -> str:
    """A value that kernels can work on, a constant or not; raises UnsupportedError for others."""
    if name not in site.builder.types and name not in site.arrays:
        raise UnsupportedError(f"the shape of {name!r} depends on data")
    value = site.value(name)
    kind = site.builder.types[value]
    if not kind.native:
        raise UnsupportedError(f"{name!r} has type {kind}")
    return value
