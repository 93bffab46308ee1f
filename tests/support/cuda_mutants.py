"""Faults for CUDA text: what a GPU would run wrongly, one change each."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.cuda.kernel import CudaSource, Launch
from codegen.cuda.names import identifier

_BARRIER = re.compile(r"__syncthreads\(\);")
_ARRAY = re.compile(r"(?m)(^\s*(__shared__ )?[\w() ]*?\w+ \w+\[)(\d+)(\];)")
_CARVED = re.compile(r"(\(&\w+\)\[)(\d+)(\] = \*\([^;]*?\(\*\)\[)\d+(\]\))")
_GUARD = re.compile(r"\bif \((?!threadIdx)")
_PRIVATE = re.compile(r"\)\s+(\w+)\[[^;=]*\] = (?!.*\b\1\[)", re.DOTALL)
_TARGET = re.compile(r"(\w+)\[[^;=]*\] = ")
# Fault, what is changed, what it becomes.
_CHANGES = (
    (
        "piece misaligned",
        re.compile(r"((?:(?:load|store|copy)_piece|copy_ahead)<(?!1>)[^&;]*?&\w+\[)"),
        r"\g<1>1 + ",
    ),
    (
        "piece misaligned",
        re.compile(r"(copy_piece<\d+>\(&\w+\[[^\]]*\], &\w+\[)(?=[^\]]*\]\);)"),
        r"\g<1>1 + ",
    ),
    (
        "rest of a copy for all threads",
        re.compile(r"\bif \((?=thread < \d+\) \{)(?![^}]*(?:\* slot \+|&next))"),
        "if (true || ",
    ),
    ("members of an exchange halved", re.compile(r"(?<=_sync\()0xffffffffu"), "0xffffu"),
    (
        "offset of an exchange doubled",
        re.compile(r"(_sync\([^;]*?, )step\)(?=;\s*const \w+ result\w* = \(lhs\w* \+ rhs)"),
        r"\g<1>2 * step)",
    ),
    ("wait for a tile less", re.compile(r"(wait_copies<)(\d>\(\);)"), r"\g<1>1 + \g<2>"),
    ("wait for copies dropped", re.compile(r"wait_copies<\d>\(\);"), ";"),
)


@dataclass(frozen=True)
class Mutant:
    """A program with one fault; ``fault`` says which, for messages."""

    fault: str
    source: CudaSource

    @property
    def kind(self) -> str:
        """The sort of its fault."""
        return self.fault.partition(" in line ")[0]


def mutants_of(source: CudaSource) -> Iterator[Mutant]:
    """Every single change of these sorts.

    - a barrier deleted;
    - an array in shared or local memory halved, or what a launch gives for such arrays;
    - a guard of global memory dropped;
    - the last round of a copy made by threads that have no part in it;
    - a piece of several elements moved by one element;
    - an exchange of values without half of its members, or a sum with offsets twice as large;
    - the wait for asynchronous copies dropped, or for one tile less.

    Left out are faults that are none: barriers of a single thread, guards of what is only in
    shared memory, which holds zeros where they do not, guards of private memory that nobody reads
    beyond them, where what is read has conditions of its own, guards of writes to a buffer that a
    later launch writes to: it may put right what is wrong, and sources of copies under a
    condition: it may hold for no point of a round.  Offsets are those of sums: a softmax does not
    depend on its maximum.  Rests are not those of tiles that are several: what runs over is in the
    next tile, which is filled later, or in registers, which nobody stores.
    """
    yield from _without_order(source)
    yield from _without_bounds(source)
    for fault, pattern, new in _CHANGES:
        for match in pattern.finditer(source.text, source.text.index("__global__")):
            yield _changed(source, fault, match, match.expand(new))


def _without_order(source: CudaSource) -> Iterator[Mutant]:
    """Every barrier deleted."""
    for match in _BARRIER.finditer(source.text):
        if _launches_from(source, match.start())[0].block > 1:
            yield _changed(source, "barrier deleted", match, ";")


def _without_bounds(source: CudaSource) -> Iterator[Mutant]:
    """Every array halved, every guard of global memory dropped."""
    text = source.text
    start = text.index("__global__")
    for match in _ARRAY.finditer(text, start):
        if int(match.group(3)) > 1:
            sort = "shared" if match.group(2) else "local"
            halved = f"{match.group(1)}{int(match.group(3)) // 2}{match.group(4)}"
            yield _changed(source, f"{sort} array halved", match, halved)
    for match in _CARVED.finditer(text, start):
        half = int(match.group(2)) // 2
        halved = f"{match.group(1)}{half}{match.group(3)}{half}{match.group(4)}"
        yield _changed(source, "shared array halved", match, halved)
    for place, launch in enumerate(source.launches):
        if launch.shared_bytes:
            fewer = list(source.launches)
            fewer[place] = replace(launch, shared_bytes=launch.shared_bytes // 2)
            fault = f"shared bytes of a launch halved in line 0 of {source.name}"
            yield Mutant(fault, replace(source, launches=tuple(fewer)))
    pointer = re.compile(rf"\b(?:{'|'.join(_pointers(text))})\[")
    for match in _GUARD.finditer(text, start):
        statement = text[match.start() : text.index(";", match.start())]
        later = _launches_from(source, match.start())[1:]
        reads = [statement[: found.start()] for found in pointer.finditer(statement)]
        private = _PRIVATE.search(statement) and all(text.endswith("? ") for text in reads)
        if reads and not private and not _written(later) & set(_TARGET.findall(statement)):
            yield _changed(source, "guard dropped", match, "if (true || ")


def _launches_from(source: CudaSource, place: int) -> list[Launch]:
    """The launch whose text a place is in, and those after it."""
    starts = [source.text.index(f"\n{launch.symbol}(") for launch in source.launches]
    return list(source.launches[bisect(starts, place) - 1 :])


def _written(launches: list[Launch]) -> set[str]:
    """Identifiers of the buffers that launches write."""
    return {
        identifier(buffer)
        for launch in launches
        for buffer, kind in zip(launch.buffers, launch.parameters, strict=True)
        if not kind.startswith("const ")
    }


def _pointers(text: str) -> set[str]:
    """Names of the kernels' parameters: global memory."""
    heads = re.findall(r"__global__[^(]*(?:\([^)]*\)[^(]*)?\(([^)]*)\)", text)
    return {name for head in heads for name in re.findall(r"(\w+)(?:,|$)", head.strip())}


def _changed(source: CudaSource, fault: str, match: re.Match[str], new: str) -> Mutant:
    line = source.text.count("\n", 0, match.start()) + 1
    text = source.text[: match.start()] + new + source.text[match.end() :]
    return Mutant(f"{fault} in line {line} of {source.name}", replace(source, text=text))
