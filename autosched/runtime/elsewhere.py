"""A program for another machine: it can be described, saved and exported, and does not run here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from autosched.runtime.loaded import Arrays, Outputs
from autosched.runtime.program import ExecutionPlan
from sketch.errors import TargetError

if TYPE_CHECKING:
    from autosched.runtime.explanation import Machine
    from autosched.runtime.peaks import Peaks

_HINT = "write it with Module.save or Module.export_library, and run it there"


class ProgramElsewhere:
    """A ``LoadedProgram`` all of whose methods raise TargetError.

    ``missing``: why this machine cannot run it, as a sentence.
    """

    def __init__(self, program: ExecutionPlan, missing: str) -> None:
        self._program, self._missing = program, missing

    def call(self) -> NoReturn:
        """Raises TargetError."""
        self._refuse()

    def bind(self, arrays: Arrays, given: Outputs) -> NoReturn:
        """Raises TargetError."""
        self._refuse()

    def submit(self, arrays: Arrays, handle: int | None) -> dict[str, Any]:
        """Raises TargetError."""
        self._refuse()

    def read(self, value: Any, where: str) -> Any:
        """Raises TargetError."""
        self._refuse()

    def pin_threads(self, cores: Sequence[int] | None) -> None:
        """Raises TargetError."""
        self._refuse()

    def peaks(self) -> Peaks:
        """Raises TargetError."""
        self._refuse()

    def machine(self) -> Machine:
        """Raises TargetError."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        where = f"module {self._program.name} for {self._program.target.arch}"
        raise TargetError(f"it cannot run here: {self._missing}", where, _HINT)
