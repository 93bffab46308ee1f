"""The kernels of a network: each is built once, by another process where there are some."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from autosched.compilation.scheduled import Built, Scheduled, UnbuildableRecordError
from autosched.compilation.side_processes import SideProcesses, answer_of
from autosched.tasks.candidate import Candidate
from autosched.tasks.kernel import kernel_of

if TYPE_CHECKING:
    from codegen.kernel import CompiledKernel
    from sketch.target.target import Target

_BUILT_BY: Final = "autosched.compilation.kernels:answer"
# A typical kernel takes so long to build.
_KERNEL_S: Final = 0.04

Places = tuple[frozenset[tuple[str, tuple[int, ...]]], frozenset[str]]
"""The strides of arguments that do not lie in one piece, the arguments that start anywhere."""

KernelKey = tuple[Scheduled, Places]
_Code = tuple[int, bool, Places]  # by its candidate
_Request = tuple[
    Candidate, "Target", str, Mapping[str, tuple[int, ...]], frozenset[str], bool
]  # what ``kernel_of`` takes


@dataclass(frozen=True, slots=True, eq=False)
class KernelForm:
    """A kernel that is needed.

    Attributes:
        item: the schedule.
        strides: of the arguments that do not lie in one piece, in elements.
        loose: the arguments that start at any element.
    """

    item: Scheduled
    strides: Mapping[str, tuple[int, ...]]
    loose: frozenset[str]

    @property
    def places(self) -> Places:
        return frozenset(self.strides.items()), self.loose

    @property
    def code(self) -> _Code:
        """Equal where the code is: a schedule may have got errors or notes since."""
        return id(self.item.candidate), self.item.short_sums, self.places


class Kernels:
    """What is known of the kernels of a network, for as often as it is put together.

    Args:
        processes: build ahead; None: there are none.

    Attributes:
        accepted: kernels that are right and accurate enough.
    """

    def __init__(self, processes: SideProcesses | None = None) -> None:
        self.accepted: dict[KernelKey, Built] = {}
        self._processes = processes
        self._begun: dict[_Code, tuple[KernelForm, str]] = {}  # and the kernel's symbol
        self._coming: dict[_Code, Future[bytes | None]] = {}

    def begin(self, forms: Iterable[KernelForm]) -> None:
        """Have kernels built that will be needed, in their order."""
        new = {form.code: form for form in forms if form.code not in self._begun}
        symbols = {code: self._symbol(form) for code, form in new.items()}
        if self._processes is not None and self._processes.worth(_KERNEL_S * len(new)):
            for code, form in new.items():
                asked = self._processes.begin(_BUILT_BY, _request(form, symbols[code]))
                self._coming[code] = asked

    def build(self, form: KernelForm) -> CompiledKernel:
        """The code of a kernel.

        Raises:
            UnbuildableRecordError: a recorded schedule makes none.
            AutoschedError: another one makes none.
        """
        symbol = self._symbol(form)
        answered = answer_of(self._coming.pop(form.code, None))
        if answered is not None:
            kernel: CompiledKernel = pickle.loads(answered)
            return kernel
        try:
            return kernel_of(*_arguments(form, symbol))
        except Exception as error:  # steps of a record may be such as no rule makes
            if form.item.recalled is None:
                raise
            raise UnbuildableRecordError(form.item.recalled.record, error) from error

    def _symbol(self, form: KernelForm) -> str:
        return self._begun.setdefault(form.code, (form, f"k{len(self._begun)}"))[1]


def answer(request: bytes) -> bytes:
    """What another process answers."""
    asked: _Request = pickle.loads(request)
    return pickle.dumps(kernel_of(*asked), pickle.HIGHEST_PROTOCOL)


def _request(form: KernelForm, symbol: str) -> _Request:
    candidate = form.item.candidate
    # Without what the sketch has derived from its program.
    values = {name: int(value) for name, value in candidate.values.items()}
    return Candidate(replace(candidate.sketch), values), *_arguments(form, symbol)[1:]


def _arguments(form: KernelForm, symbol: str) -> _Request:
    item = form.item
    return (
        item.candidate, item.task.target, symbol, dict(form.strides), form.loose, item.short_sums,
    )  # fmt: skip
