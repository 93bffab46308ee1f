"""What the converter of an operator sees: one call, its arguments, the network being built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Value
from autosched.graph.ops.base import Op, Shape, TensorType, normalize_axis
from autosched.graph.ops.elementwise import CastOp
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.system.stray_nans import stray_nans
from autosched.torch_frontend.tensors import to_numpy


class NotTakenError(Exception):
    """This call cannot be converted; the message says why.

    Args:
        text: the message.
        target: the operator, where that is known.
    """

    def __init__(self, text: str, target: Any = None) -> None:
        super().__init__(text)
        self.target = target


@dataclass(frozen=True, slots=True)
class AtenCall:
    """One call of an ATen operator.

    Attributes:
        name: of the call.
        given: arguments by the names of the operator's schema, defaults filled in; tensors that are
            known now are tensors of torch, those of the network are a ``Value``.
        fakes: the same arguments, values as torch's tensors without elements.
        dtype: of the result, or of the first one.
        builder: the network so far.
        constants: names of tensors that are part of it, by their identity.
        views: what each reshaped value of it is a view of.
        read: which of several results somebody reads.
    """

    name: str
    given: Mapping[str, Any]
    fakes: Mapping[str, Any]
    dtype: str
    builder: GraphBuilder
    constants: dict[int, tuple[str, Any]]
    views: dict[str, str]
    read: frozenset[int] = frozenset()

    def __getitem__(self, role: str) -> Any:
        return self.given[role]

    def shape(self, role: str) -> Shape:
        """Shape of a tensor."""
        return tuple(self.given[role].shape)

    def type_of(self, value: str) -> TensorType:
        """Type of a value of the network."""
        return self.builder.types[value]

    def value(self, role: str) -> str:
        """A tensor as a value of the network; one that is known becomes a constant on first use."""
        return self.named(self.given[role])

    def values(self, *roles: str) -> list[str]:
        """Several tensors; those that are not given are left out."""
        return [self.value(role) for role in roles if self.given[role] is not None]

    def bias(self, role: str) -> list[str]:
        """A tensor that is added; none if it is not given, or known to be zero."""
        return [] if self._is_known(role, 0) else self.values(role)

    def factor(self, role: str) -> list[str]:
        """A tensor that is multiplied by; none if it is not given, or known to be one."""
        return [] if self._is_known(role, 1) else self.values(role)

    def _is_known(self, role: str, number: float) -> bool:
        """Whether all elements of a tensor are known to be ``number``."""
        given = self.given[role]
        return given is not None and not isinstance(given, Value) and bool((given == number).all())

    def named(self, tensor: Any) -> str:
        """The network's name of a tensor.

        Raises:
            NotTakenError: it has no elements, or some that are no numbers.
        """
        if isinstance(tensor, Value):
            return tensor.name
        if id(tensor) not in self.constants:
            name = self._constant(to_numpy(tensor))
            self.constants[id(tensor)] = name, tensor  # as long as it lives, nobody else has its id
        return self.constants[id(tensor)][0]

    def operand(self, role: str, dtype: str) -> str:
        """A tensor or a number as a value of ``dtype``."""
        given = self.given[role]
        if isinstance(given, bool | int | float):
            return self.number(given, dtype)
        name = self.named(given)
        return name if self.type_of(name).dtype == dtype else self.add(CastOp(dtype), name)

    def number(self, value: float, dtype: str) -> str:
        """A constant without dimensions."""
        return self._constant(np.asarray(value).astype(dtype))

    def array(self, array: NDArray[Any]) -> str:
        """A constant that the converter made."""
        return self._constant(array)

    def add(self, op: Op, *inputs: str) -> str:
        """Append ``op`` to the network; returns the name of its result."""
        name = self.builder.unique(f"{self.name}.{op.kind}")
        if isinstance(op, Reshape):
            self.views[name] = inputs[0]
        return self.builder.add(op, inputs, name, name, (self.name,))

    def turned(self, data: str, order: Sequence[int]) -> str:
        """A value whose dimension d is dimension ``order[d]`` of ``data``."""
        same = list(order) == sorted(order)
        return data if same else self.add(Transpose(tuple(order)), data)

    def stored(self, number: float) -> float:
        """An attribute as ONNX has it, in float32: tasks are equal if their numbers are."""
        return number if self.dtype == "float64" else float(np.float32(number))

    def require(self, holds: bool, what: str) -> None:
        """Raise NotTakenError unless ``holds``."""
        if not holds:
            raise NotTakenError(what)

    def _constant(self, array: NDArray[Any]) -> str:
        kind = TensorType(array.shape, str(array.dtype))
        self.require(kind.native, f"a constant of type {kind}")
        self.require(not stray_nans(array), "NaN in a constant")
        return self.builder.constant(self.builder.unique(f"{self.name}.constant"), array)


Result = str | tuple[str | None, ...]
Converter = Callable[[AtenCall], Result]
"""Returns the names of the call's results; None for one that nobody has computed."""


def axis_of(call: AtenCall, role: str = "dim", more: int = 0) -> int:
    """A dimension of ``self``, counted from the front.

    Args:
        call: of an operator whose data is ``self``.
        role: the argument that says which.
        more: dimensions that the result has more.
    """
    return normalize_axis(call[role], len(call.shape("self")) + more)


def per_dimension(values: Sequence[int], rank: int) -> Shape:
    """Numbers for all dimensions; torch takes one number for all of them.

    Raises:
        NotTakenError: there are more or fewer.
    """
    repeated = tuple(values) * rank if len(values) == 1 else tuple(values)
    if len(repeated) != rank:
        raise NotTakenError(f"{repeated} for {rank} dimensions")
    return repeated
