"""Registers that tiles go through where there are no asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegen.cuda.device import Fetch, Pipeline, points
from codegen.cuda.names import Identifiers
from codegen.cuda.scalars import C_TYPES
from codegen.gpu.alignment import WIDEST


@dataclass(frozen=True, slots=True)
class Staging:
    """What a thread keeps of the tile that is read next.

    Attributes:
        names: of the array for each copy, which has a piece for each of the thread's rounds.
        elements: of each array.
        loads: whether pieces come from global memory, else they go to shared memory.
    """

    names: Mapping[Fetch, str]
    elements: Mapping[Fetch, int]
    loads: bool = False

    @staticmethod
    def of(pipeline: Pipeline, threads: int, identifiers: Identifiers) -> Staging:
        """For a pipeline of ``threads`` that only copy."""
        names: dict[Fetch, str] = {}
        elements: dict[Fetch, int] = {}
        for part in pipeline.later:
            for copy in part.body:
                if isinstance(copy, Fetch):
                    names[copy] = identifiers.fresh("next")
                    elements[copy] = copy.count * -(-points(part.bindings) // threads)
        return Staging(names, elements)

    def declarations(self) -> Iterator[str]:
        """The arrays, as aligned as the widest piece."""
        for copy, name in self.names.items():
            kind = C_TYPES[copy.source.dtype]
            yield f"__align__({WIDEST}) {kind} {name}[{self.elements[copy]}];"
