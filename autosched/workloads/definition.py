"""A workload: a family of tensor programs, one for every choice of sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, cast, overload

from autosched.system.errors import WorkloadError
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor

if TYPE_CHECKING:
    from autosched.api import AnyTarget
    from autosched.task import Task

Parameters = ParamSpec("Parameters")
_Own = ParamSpec("_Own")
Outputs = Tensor | Sequence[Tensor]
Sizes = tuple[int, ...]
Size = int | float | bool | str
"""An argument of a workload: a size, or what else its definition takes."""


@dataclass(frozen=True, slots=True)
class Workload(Generic[Parameters]):
    """A named function from sizes to the outputs of a program.

    Attributes:
        name: short and unique among the workloads that are used together.
        define: returns the output tensor, or a sequence of them; its signature names the sizes.
        shapes: arguments of ``define`` that are worth measuring, one tuple for each configuration.
    """

    name: str
    define: Callable[Parameters, Outputs]
    shapes: tuple[Sizes, ...] = ()

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Outputs:
        """The outputs, as the decorated function returns them."""
        return self.define(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.name}{self.signature}: {self.summary}"

    @property
    def signature(self) -> inspect.Signature:
        """Parameters of the workload."""
        plain = inspect.signature(self.define)
        parameters = [p.replace(annotation=p.empty) for p in plain.parameters.values()]
        return plain.replace(parameters=parameters, return_annotation=plain.empty)

    @property
    def summary(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.define) or "").partition("\n")[0]

    def label(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> str:
        """Name and arguments, for people: ``GMM(1, 128, 128, 128)``."""
        given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{self.name}({', '.join(given)})"

    def dag(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> ComputeDAG:
        """The program for these sizes.

        Raises:
            WorkloadError: the arguments do not fit the signature, or no tensor comes back.
            ExpressionError: the sizes make no program.
        """
        where = f"workload {self.name}"
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise WorkloadError(
                f"arguments {args}, {kwargs} do not fit: {error}",
                where,
                f"call it as {self.name}{self.signature}",
            ) from error
        result = self.define(*bound.args, **bound.kwargs)
        outputs = [result] if isinstance(result, Tensor) else result
        if not isinstance(outputs, Sequence) or not all(isinstance(t, Tensor) for t in outputs):
            raise WorkloadError(
                f"it returned {type(result).__name__}", where, "return the output tensors"
            )
        return ComputeDAG(outputs)

    def key(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> str:
        """Structural key of the program, by which records are found: equal in every process."""
        return self.dag(*args, **kwargs).key

    def task(
        self, *args: Size, target: AnyTarget = "cpu", threads: int | None = None, **kwargs: Size
    ) -> Task:
        """A task to tune: the program for these sizes, on ``target``.

        Raises:
            WorkloadError: the arguments do not fit the signature, or no tensor comes back.
            ExpressionError: the sizes make no program.
            TargetError: an unknown target.
        """
        from autosched.api import resolve_target
        from autosched.task import Task

        plain = cast("Workload[...]", self)  # type checkers: no other argument beside those of dag
        label = plain.label(*args, **kwargs)
        return Task(plain.dag(*args, **kwargs), resolve_target(target, threads), label)

    def configurations(self, batch: int = 1) -> tuple[Sizes, ...]:
        """``shapes`` with the first size, the batch, replaced."""
        return tuple((batch, *shape[1:]) for shape in self.shapes)


class _Decorator(Protocol):
    """Makes a workload of a function, with the function's parameters."""

    def __call__(self, function: Callable[_Own, Outputs], /) -> Workload[_Own]: ...


@overload
def workload(define: Callable[Parameters, Outputs], /) -> Workload[Parameters]: ...


@overload
def workload(*, name: str | None = None, shapes: Iterable[Sizes] = ()) -> _Decorator: ...


def workload(
    define: Callable[Parameters, Outputs] | None = None,
    /,
    *,
    name: str | None = None,
    shapes: Iterable[Sizes] = (),
) -> Workload[Parameters] | _Decorator:
    """Turn a function that returns output tensors into a ``Workload``.

    ::

        @asd.workload
        def outer(n, m):
            a, b = asd.placeholder((n,), name="a"), asd.placeholder((m,), name="b")
            return asd.compute((n, m), lambda i, j: a[i] * b[j], name="outer")

        outer.task(1024, 1024).tune(trials=64, log="outer.jsonl")

    Args:
        define: the function; its parameters are the sizes.
        name: name of the workload, that of the function by default.
        shapes: configurations, each a tuple of arguments.
    """
    listed = tuple(tuple(shape) for shape in shapes)

    def decorate(function: Callable[_Own, Outputs]) -> Workload[_Own]:
        return Workload(name or str(getattr(function, "__name__", "workload")), function, listed)

    return decorate if define is None else decorate(define)
