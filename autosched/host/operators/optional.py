"""Optional values of host operators.

onnx's ``Optional`` makes a list of one element, ``[x]``, and ``[None]`` of nothing.  Its
``OptionalGetElement`` returns that list where ``x`` is meant, and its ``OptionalHasElement`` says
that there is an element in ``[None]``.  Here the list has a type of its own, and none if empty.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from onnx.reference.op_run import OpRun


class _Wrapped(list[Any]):
    """An optional value: a list of one element or of none, which is no sequence of the model."""


class Optional(OpRun):
    """Replaces onnx's implementation of the same name, as the others do."""

    op_domain: ClassVar[str] = ""

    def _run(self, x: Any = None, type: Any = None) -> tuple[Any, ...]:
        return (_Wrapped([] if x is None else [x]),)


class OptionalGetElement(OpRun):
    """The element; of a value that is not wrapped, itself."""

    op_domain: ClassVar[str] = ""

    def _run(self, x: Any) -> tuple[Any, ...]:
        if not isinstance(x, _Wrapped):
            return (x,)
        if not x:
            raise ValueError("the optional value is empty")
        return (x[0],)


class OptionalHasElement(OpRun):
    """Whether there is one; a value that is not wrapped has itself."""

    op_domain: ClassVar[str] = ""

    def _run(self, x: Any = None) -> tuple[Any, ...]:
        empty = x is None or (isinstance(x, _Wrapped) and not x)
        return (np.array(not empty),)
