"""Arrays of other libraries whose memory holds other numbers than they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import UnaryOp
from autosched.runtime.borrowed_array import resolved
from autosched.runtime.gpu.device_array import read_array

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@dataclass(frozen=True)
class Lazy:
    """As PyTorch's tensors: conjugated and negated when it is asked for."""

    array: np.ndarray
    conjugated: bool = False
    negated: bool = False

    def is_conj(self) -> bool:
        return self.conjugated

    def is_neg(self) -> bool:
        return self.negated

    def resolve_conj(self) -> Lazy:
        return Lazy(self.array.conj(), negated=self.negated)

    def resolve_neg(self) -> Lazy:
        return Lazy(-self.array, conjugated=self.conjugated)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_what_is_due_is_done() -> None:
    array = np.array([1 + 2j, 3 - 1j])
    for conjugated in (False, True):
        for negated in (False, True):
            lazy = Lazy(array, conjugated, negated)
            found = resolved(lazy)
            right = array.conj() if conjugated else array
            np.testing.assert_array_equal(found.array, -right if negated else right)
            assert found is lazy or conjugated or negated
    assert resolved(array) is array


def test_modules_read_negated_arrays_as_they_are_meant() -> None:
    lazy: Any = Lazy(X, negated=True)
    builder = GraphBuilder("positive")
    y = builder.add(UnaryOp("relu"), [builder.input(Value("x", X.shape))])
    module = asd.compile(Network("positive", builder.finish({"y": y})), effort="none")
    np.testing.assert_array_equal(module.run({"x": lazy})["y"], np.maximum(-X, 0))
    device: Any = None  # the array is in CPU memory
    np.testing.assert_array_equal(read_array(lazy, device, "x"), -X)
