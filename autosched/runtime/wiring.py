"""What is assembled: kernel calls, host evaluations, and the values that connect them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from autosched.runtime.program import RepeatedSteps, StepInfo, TensorSpec

if TYPE_CHECKING:
    from codegen.kernel import CompiledKernel
    from sketch.target.target import Target

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One execution of a kernel.

    Attributes:
        kernel: the code; one kernel may serve several calls.
        values: for each of the kernel's arguments the name of a value or of a constant.
        info: what it is, for people.
    """

    kernel: CompiledKernel
    values: tuple[str, ...]
    info: StepInfo

    def bound(self, *scopes: str) -> tuple[str, ...]:
        """Names of the values bound to arguments of these scopes ("input", "output", ...)."""
        pairs = zip(self.kernel.arguments, self.values, strict=True)
        return tuple(value for argument, value in pairs if argument.scope in scopes)

    @property
    def read(self) -> tuple[str, ...]:
        """Names of the values that it reads."""
        return self.bound("input", "constant")

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the values that it writes."""
        return self.bound("output")


@dataclass(frozen=True, slots=True, eq=False)
class HostBinding:
    """One evaluation on the host.

    Attributes:
        payload: name of the serialized ONNX model.
        inputs: types, named after the values or constants that are read.
        outputs: indices among the results, and types named after the values that are written.
        info: what it is, for people.
    """

    payload: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[tuple[int, TensorSpec], ...]
    info: StepInfo

    @property
    def read(self) -> tuple[str, ...]:
        """Names of the values that it reads."""
        return tuple(spec.name for spec in self.inputs)

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the values that it writes."""
        return tuple(spec.name for _, spec in self.outputs)


@dataclass(frozen=True, slots=True)
class Inside:
    """Where a value lies in a larger one.

    Attributes:
        whole: name of the larger value.
        offset: bytes from its start; that of iteration 0 in a loop.
        stride, period, first: for values of a loop, as in ``Moving``; ``first`` is the name of a
            value.  Without a stride and a first value it lies still.
    """

    whole: str
    offset: int
    stride: int = 0
    period: int = 0
    first: str | None = None

    @property
    def moves(self) -> bool:
        """Whether iterations of a loop find it at different places."""
        return self.stride != 0 or self.first is not None


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """A network of kernel calls and evaluations on the host.

    Attributes:
        inputs: specs of the network's inputs; each is a value of that name.
        outputs: spec of each output and the name of the value or constant that it is; the shapes
            may differ (views), the row-major elements are the same.
        calls: in execution order.
        constants: packed arrays by name.
        sizes: bytes of every value in memory that is no constant; a value without a size is an
            array that only host evaluations write and read.
        parts: values that are parts of larger values.  A call that writes a part writes into the
            larger value.
        loops: runs of calls that are executed several times: numbers count ``calls``.
    """

    name: str
    target: Target
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[tuple[TensorSpec, str], ...]
    calls: tuple[Call | HostBinding, ...]
    constants: Arrays
    sizes: Mapping[str, int]
    parts: Mapping[str, Inside] = field(default_factory=dict)
    loops: tuple[RepeatedSteps, ...] = ()

    def size(self, name: str) -> int | None:
        """Bytes of a value or constant that is no part; None if it is not in memory."""
        constant = self.constants.get(name)
        return self.sizes.get(name) if constant is None else int(constant.nbytes)

    def home(self, name: str) -> str:
        """The value whose memory ``name`` lies in."""
        while name in self.parts:
            name = self.parts[name].whole
        return name

    def loop_of(self, number: int) -> RepeatedSteps | None:
        """The loop that call ``number`` is in."""
        inside = (loop for loop in self.loops if loop.first <= number < loop.first + loop.count)
        return next(inside, None)
