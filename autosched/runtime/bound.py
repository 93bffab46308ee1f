"""``BoundModule``: a module whose inputs and outputs stay where they are from call to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.borrowed_array import resolved
from autosched.runtime.errors import InputError
from autosched.runtime.inputs import check_inputs
from autosched.runtime.loaded import LoadedProgram
from autosched.runtime.outputs import check_outputs, delivered, new_output
from autosched.runtime.program import ExecutionPlan

_NOBODY = 0


class BoundModule:
    """A module with the arrays that it reads and writes, see ``Module.bind``.

        >>> module = asd.workloads.get("GMM").task(1, 16, 16, 16).module()
        >>> a = b = np.ones((1, 16, 16), np.float32)
        >>> product = module.bind({"A": a, "B": b})
        >>> product()["gmm"][0, 0, :2]
        array([16., 16.], dtype=float32)
        >>> a[...] = 2
        >>> product()["gmm"][0, 0, :2]
        array([64., 64.], dtype=float32)

    It has memory of its own for the values in between, so that a module may be bound several times,
    once for each thread that calls it.

    Attributes:
        inputs: the arrays that every call reads, by name; write new values into them.
        outputs: those that every call writes.
    """

    __slots__ = ("_caller", "_compute", "_name", "inputs", "outputs")

    def __init__(
        self,
        name: str,
        compute: Callable[[], None],
        inputs: Mapping[str, Any],
        outputs: dict[str, NDArray[Any]],
    ) -> None:
        """``compute``: writes ``outputs``; ``name``: of the module, for messages."""
        self.inputs, self.outputs = inputs, outputs
        self._name, self._compute, self._caller = name, compute, _NOBODY

    def __call__(self) -> dict[str, NDArray[Any]]:
        """Compute ``outputs`` from what is in ``inputs`` now, and return them.

        Raises:
            HostError: an operator that runs on the host failed on these values.
            InputError: another thread is in the middle of a call.
        """
        me = get_ident()
        if self._caller not in (_NOBODY, me):
            raise InputError(
                "another thread is in the middle of a call",
                f"module {self._name}",
                "bind it once for each thread",
            )
        before, self._caller = self._caller, me
        try:
            self._compute()
        finally:
            self._caller = before  # ``me``: a signal's handler has called it within a call
        return self.outputs

    def __repr__(self) -> str:
        return f"BoundModule({self._name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)})"


def bound(
    program: ExecutionPlan,
    loaded: LoadedProgram,
    inputs: Mapping[str, Any],
    out: Mapping[str, Any] | None,
) -> BoundModule:
    """``Module.bind``.

    Args:
        program: the plan of the module.
        loaded: where it runs.
        inputs: arrays by name.
        out: arrays by name of some outputs; None: of none.

    Raises:
        InputError: see ``Module.bind``.
    """
    arrays = check_inputs(program.inputs, inputs, loaded.read)
    for name, array in arrays.items():
        _check_in_place(name, array, inputs[name])
    specs = tuple(spec for spec, _ in program.outputs)
    given = check_outputs(specs, out)
    given = {
        spec.name: given[spec.name] if spec.name in given else new_output(spec) for spec in specs
    }
    return BoundModule(program.name, loaded.bind(arrays, given), arrays, given)


def _check_in_place(name: str, array: Any, given: Any) -> None:
    """Raise InputError where calls would read a copy, which does not see what is written later."""
    flags = array.flags if isinstance(array, np.ndarray) else None
    if flags is not None and not (flags.c_contiguous and flags.aligned):
        raise InputError(
            "the array is not dense: a copy would not see what is written into it later",
            f"input {name!r}",
            "bind numpy.ascontiguousarray(array), or use run",
        )
    if isinstance(given, np.ndarray) and array.dtype != given.dtype:
        raise InputError(
            f"dtype {given.dtype}: a copy would not see what is written into it later",
            f"input {name!r}",
            f"bind an array of dtype {array.dtype}, or use run",
        )
    if resolved(given) is not given:
        raise InputError(
            "the tensor is a negated or conjugated view: a copy would not see what is written"
            " into it later",
            f"input {name!r}",
            "bind tensor.resolve_neg(), or use run",
        )


def repeated(
    loaded: LoadedProgram, arrays: Mapping[str, Any], given: dict[str, NDArray[Any]]
) -> Callable[[], None]:
    """A call of ``loaded`` as any other, each time: for programs that copy their outputs."""

    def compute() -> None:
        with loaded.call() as call:
            delivered(call.once(arrays, given), given)

    return compute
