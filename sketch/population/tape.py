"""Tapes: the array operations of a function, recorded once and replayed for other arrays.

What is computed of a population (trips, footprints, features) depends on the numbers of its rows
only through array operations; which operations these are depends on the sketch alone.  So a
function is run once, on stand-ins that note what is done to them; a replay then costs the array
operations and nothing else.  Operations done twice are kept once, those that no result needs not
at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from sketch.population.plan import ReplayPlan, plan_of
from sketch.population.uncollected import uncollected

Function = Callable[..., Any]

# Of two operands, whose order does not matter.
_SYMMETRIC: Final = frozenset((np.add, np.multiply, np.minimum, np.maximum, np.bitwise_and))
_ARITHMETIC: Final = _SYMMETRIC | {np.divide, np.subtract, np.ceil, np.where}
# With a float64 among the operands, an integer counts as one: NumPy takes a float in a third of the
# time.
_FLOATING: Final = _ARITHMETIC | {np.greater, np.greater_equal, np.less, np.less_equal, np.equal}
_NUMBERS: Final = frozenset((int, float))
_SIMPLE: Final = _NUMBERS | {bool, tuple}
_NEUTRAL: Final[Mapping[Function, int]] = {np.add: 0, np.multiply: 1}

_F = TypeVar("_F", bound=Function)


def _operator(function: np.ufunc, backward: bool = False) -> Function:
    """A binary operator of stand-ins, without the detour over NumPy's dispatch."""
    symmetric, arithmetic = function in _SYMMETRIC, function in _ARITHMETIC
    neutral = _NEUTRAL.get(function)

    def of_two(one: Traced, two: Traced) -> Traced:
        recorder, a, b = one._recorder, one.slot, two.slot
        if symmetric and a > b:
            a, b = b, a
        key = (function, a, b)
        known = recorder.known.get(key)
        if known is None:
            real = arithmetic and (one.real or two.real)
            known = recorder.note(key, function, (a, b), real)
        return known

    of_number = _operator_of_number(function, backward)

    def operation(self: Traced, other: object) -> Traced:
        kind = type(other)
        if kind is Traced:
            two = cast("Traced", other)
            return of_two(two, self) if backward else of_two(self, two)
        recorder = self._recorder
        number = kind in _NUMBERS
        if number and other == neutral and (kind is int or self.real):
            return self
        if not number or not other:
            return recorder.call(function, (other, self) if backward else (self, other))
        # Most operations were noted before: found without a look at what they are.
        key = (function, self.slot, kind, other, backward)
        known = recorder.known.get(key)
        if known is None:
            known = recorder.known[key] = of_number(self, cast("float", other))
        return known

    return operation


def _operator_of_number(function: np.ufunc, backward: bool) -> Callable[[Traced, float], Traced]:
    """A binary operator of a stand-in and a number other than 0."""
    symmetric, arithmetic = function in _SYMMETRIC, function in _ARITHMETIC
    floating, neutral = function in _FLOATING, _NEUTRAL.get(function)

    def of_number(one: Traced, number: float) -> Traced:
        recorder = one._recorder
        if number == neutral:
            return recorder.call(function, (number, one) if backward else (one, number))
        if floating and one.real:
            number = float(number)
        a, b = one.slot, recorder._constant(number)
        if a > b if symmetric else backward:
            a, b = b, a
        key = (function, a, b)
        known = recorder.known.get(key)
        if known is None:
            real = arithmetic and (one.real or type(number) is float)
            known = recorder.note(key, function, (a, b), real)
        return known

    return of_number


class Traced(NDArrayOperatorsMixin):
    """Stands for an array while a tape is recorded: operators and NumPy's functions are noted.

    Its values are unknown: a branch on them, or a conversion to an array, raises TypeError.
    """

    __slots__ = ("_recorder", "real", "slot")

    def __init__(self, recorder: Recorder, slot: int, real: bool = False) -> None:
        """``real``: known to be float64."""
        self._recorder, self.slot, self.real = recorder, slot, real

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Traced:
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self._recorder.call(function, inputs, kwargs)

    def __array_function__(
        self, function: Function, _types: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Traced:
        return self._recorder.call(function, inputs, kwargs)

    __add__, __radd__ = _operator(np.add), _operator(np.add, backward=True)
    __sub__, __rsub__ = _operator(np.subtract), _operator(np.subtract, backward=True)
    __mul__, __rmul__ = _operator(np.multiply), _operator(np.multiply, backward=True)
    __truediv__, __rtruediv__ = _operator(np.divide), _operator(np.divide, backward=True)
    __gt__, __lt__ = _operator(np.greater), _operator(np.less)
    __ge__, __le__ = _operator(np.greater_equal), _operator(np.less_equal)
    __eq__ = _operator(np.equal)
    __and__, __rand__ = _operator(np.bitwise_and), _operator(np.bitwise_and, backward=True)
    __or__, __ror__ = _operator(np.bitwise_or), _operator(np.bitwise_or, backward=True)
    __floordiv__ = _operator(np.floor_divide)
    __rfloordiv__ = _operator(np.floor_divide, backward=True)

    def __neg__(self) -> Traced:
        return self._recorder.call(np.negative, (self,))

    def __getitem__(self, key: object) -> Traced:
        return self._recorder.call(part, (self,), {"key": Key(key)})

    def astype(self, dtype: type) -> Traced:
        """As ``ndarray.astype``."""
        recorder = self._recorder
        key = (cast_to, self.slot, dtype)
        known = recorder.known.get(key)
        if known is None:
            function = partial(cast_to, dtype=dtype)
            known = recorder.note(key, function, (self.slot,), dtype is np.float64)
        return known

    def __bool__(self) -> bool:
        raise TypeError("a recorded function must not branch on the numbers of a population")

    def __array__(self, *_: object, **__: object) -> NDArray[np.float64]:
        raise TypeError("a recorded function must not turn the numbers of a population into arrays")


def recordable(function: _F) -> _F:
    """A function that a tape notes as a single operation; all of its arguments are positional."""

    @wraps(function)
    def call(*inputs: Any) -> Any:
        for value in inputs:
            if isinstance(value, Traced):
                return value._recorder.call(function, inputs)
        return function(*inputs)

    return cast("_F", call)


def _function_of_two(function: np.ufunc) -> Function:
    """``function``, which finds what was noted before without the detour over NumPy's dispatch."""
    forward, backward = _operator(function), _operator(function, backward=True)

    def call(a: Any, b: Any) -> Any:
        if isinstance(a, Traced):
            return forward(a, b)
        return backward(b, a) if isinstance(b, Traced) else function(a, b)

    return call


where: Final = recordable(np.where)
minimum: Final = _function_of_two(np.minimum)
maximum: Final = _function_of_two(np.maximum)


@dataclass(frozen=True, slots=True)
class Key:
    """A fixed index; slices cannot be hashed, but their texts are unique."""

    value: object

    def __hash__(self) -> int:
        return hash(repr(self.value))


def part(values: NDArray[Any], key: Key) -> Any:
    """A fixed part, as a tape notes it."""
    return values[cast("Any", key.value)]


def cast_to(values: NDArray[Any], dtype: type) -> Any:
    """Another type, as a tape notes it."""
    return values.astype(dtype)


class Recorder:
    """Notes operations; equal ones get one slot."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.sources: list[tuple[int, ...]] = []
        self.targets: list[int] = []
        self.constants: dict[int, Any] = {}
        self.slots = 0
        self.known: dict[object, Traced] = {}
        self._constant_slots: dict[object, int] = {}

    def input(self) -> Traced:
        """A slot that every replay fills."""
        return Traced(self, self._slot())

    def call(
        self, function: Function, inputs: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> Traced:
        """Note one operation on stand-ins and fixed values."""
        if function in _NEUTRAL:
            same = _unchanged(inputs, _NEUTRAL[function])
            if same is not None:
                return same
        real = fixed = False
        for value in inputs:
            if type(value) is not Traced:
                fixed = True
            elif value.real:
                real = True
        if fixed:
            sources, real = self._sources(inputs, real, real and function in _FLOATING)
        else:
            sources = [value.slot for value in inputs]
        if function in _SYMMETRIC and sources[0] > sources[1]:
            sources.reverse()
        key = (function, *sources, *kwargs.items()) if kwargs else (function, *sources)
        known = self.known.get(key)
        if known is None:
            noted = partial(function, **kwargs) if kwargs else function
            known = self.note(key, noted, tuple(sources), real and function in _ARITHMETIC)
        return known

    def _sources(
        self, inputs: tuple[Any, ...], real: bool, floating: bool
    ) -> tuple[list[int], bool]:
        """(slots of stand-ins and fixed values, whether one of them is known to be float64).

        ``real``: whether a stand-in is; ``floating``: whether integers count as floats.
        """
        sources: list[int] = []
        for value in inputs:
            if type(value) is Traced:
                sources.append(value.slot)
                continue
            value = float(value) if floating and type(value) is int else value
            real = real or type(value) is float
            sources.append(self._constant(value))
        return sources, real

    def note(self, key: object, function: Function, sources: tuple[int, ...], real: bool) -> Traced:
        """Note a new operation.

        Args:
            key: by which it is known from now on.
            function: of the values of ``sources``.
            sources: slots.
            real: whether the result is float64.
        """
        slot = self.slots
        self.slots = slot + 1
        known = self.known[key] = Traced(self, slot, real)
        self.functions.append(function)
        self.sources.append(sources)
        self.targets.append(slot)
        return known

    def forget(self) -> None:
        """Let go of all stand-ins, which refer to the recorder as it does to them."""
        self.known.clear()

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _constant(self, value: Any) -> int:
        # Equal numbers of different types or signs (1, 1.0, True; 0.0, -0.0) are not the same.
        kind = type(value)
        key: object = (kind, value)
        if kind not in _SIMPLE:
            key = id(value)
        elif kind is float and value == 0.0:
            key = repr(value)
        slot = self._constant_slots.get(key)
        if slot is None:
            slot = self._constant_slots[key] = self._slot()
            self.constants[slot] = value
        return slot


def _unchanged(inputs: tuple[Any, ...], neutral: int) -> Traced | None:
    """The operand that ``1 * x`` or ``x + 0`` leaves as it is, type included."""
    for kept, other in (inputs, inputs[::-1]):
        if isinstance(kept, Traced) and type(other) in (int, float) and other == neutral:
            return kept if kept.real or type(other) is int else None
    return None


class TapeResult(NamedTuple):
    """Where a replay leaves a result; ``slot`` None: the same ``fixed`` value for all arrays."""

    slot: int | None
    fixed: Any = None


@dataclass(frozen=True, eq=False)
class Tape:
    """Recorded operations: ``slots[target] = function(*(slots[s] for s in sources))``.

    They are kept as columns, which cost the garbage collector nothing, however many tapes there
    are.

    Attributes:
        functions, sources, targets: of all operations.
        constants: what the slots hold before the first operation.
        inputs: slots of the arrays to replay for, in their order.
    """

    functions: tuple[Function, ...]
    sources: tuple[tuple[int, ...], ...]
    targets: tuple[int, ...]
    constants: tuple[Any, ...]
    inputs: tuple[int, ...]
    results: tuple[TapeResult, ...]

    def replay(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        """The results of the recorded function for other arrays; fixed ones are as recorded."""
        values = [result.fixed for result in self.results]
        for place, value in self.varying(arrays):
            values[place] = value
        return values

    def varying(self, arrays: Sequence[NDArray[Any]]) -> Iterator[tuple[int, Any]]:
        """(place, value) of the results that are not fixed, each as soon as it is known."""
        return self.plan.run(arrays)

    def only(self, chosen: Sequence[int]) -> Tape:
        """The tape of some of the results; its plan leaves out what only the others need."""
        return replace(self, results=tuple(self.results[n] for n in chosen))

    @cached_property
    def plan(self) -> ReplayPlan:
        """What a replay does."""
        with uncollected():
            return plan_of(self)


def record(function: Callable[[Sequence[Traced]], Sequence[Any]], inputs: int) -> Tape:
    """Run ``function`` on that many stand-ins and keep what its results need."""
    recorder = Recorder()
    stand_ins = [recorder.input() for _ in range(inputs)]
    with uncollected():
        values = function(stand_ins)
    results = tuple(
        TapeResult(value.slot) if isinstance(value, Traced) else TapeResult(None, value)
        for value in values
    )
    constants = tuple([recorder.constants.get(slot) for slot in range(recorder.slots)])
    recorder.forget()
    return Tape(
        tuple(recorder.functions),
        tuple(recorder.sources),
        tuple(recorder.targets),
        constants,
        tuple(stand_in.slot for stand_in in stand_ins),
        results,
    )
