"""What ``Module`` asks of a program that is loaded: on this machine's CPUs, or on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.counters.counts import StepCounts

if TYPE_CHECKING:
    from autosched.runtime.explanation import Machine
    from autosched.runtime.peaks import Peaks

Arrays = Mapping[str, Any]
"""The inputs by name: NumPy arrays, or what ``LoadedProgram.read`` makes of others."""
Outputs = dict[str, NDArray[Any]]


class Calls(Protocol):
    """What one caller has to itself: memory, and threads or a stream."""

    def once(self, arrays: Arrays, given: Outputs | None = None) -> Outputs:
        """The outputs: new arrays, or of the ``given`` ones those that can be written in place."""
        ...

    def time(self, arrays: Arrays, repeats: int, warmup: int) -> list[float]:
        """Seconds of every run, after ``warmup`` runs at least."""
        ...

    def time_steps(
        self, arrays: Arrays, repeats: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Seconds end to end, float64 ``[repeats]``, and of every step, ``[repeats, steps]``."""
        ...

    def count_steps(self, arrays: Arrays, repeats: int) -> StepCounts:
        """What every step did, over all threads, in ``repeats`` runs."""
        ...


class LoadedProgram(Protocol):
    """A program whose code and constants are where they run."""

    def call(self) -> AbstractContextManager[Calls]:
        """Memory for the calls of the ``with`` block; several may be open at a time."""
        ...

    def bind(self, arrays: Arrays, given: Outputs) -> Callable[[], None]:
        """A function that computes the outputs from these inputs into the ``given`` arrays."""
        ...

    def submit(self, arrays: Arrays, handle: int | None) -> dict[str, Any]:
        """Run, and leave the outputs on the device, see ``Module.run_on_device``."""
        ...

    def read(self, value: Any, where: str) -> Any:
        """An array from something that is no NumPy array, in place if that can be.

        Raises:
            InputError: ``value`` is no array, or one that cannot be read.
        """
        ...

    def pin_threads(self, cores: Sequence[int] | None) -> None:
        """Bind the threads that compute to cores, see ``Module.pin_threads``."""
        ...

    def peaks(self) -> Peaks:
        """Operations a second at best, on vectors and on the tensor units that it uses."""
        ...

    def machine(self) -> Machine:
        """What the machine can do at best with a program of this size."""
        ...
