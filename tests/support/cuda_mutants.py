"""Faults for CUDA text: what a GPU would run wrongly, one change each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.cuda.kernel import CudaSource

_BARRIER = re.compile(r"__syncthreads\(\);")
_SHARED = re.compile(r"(__shared__ [\w ()]+? \w+\[)(\d+)(\];)")
_GUARD = re.compile(r"\bif \((?!threadIdx)")


@dataclass(frozen=True)
class Mutant:
    """A program with one fault; ``fault`` says which, for messages."""

    fault: str
    source: CudaSource


def mutants_of(source: CudaSource) -> Iterator[Mutant]:
    """Every barrier deleted, every shared array halved, every guard of global memory dropped.

    Left out are faults that are none: barriers of a single thread, and guards of what is only in
    shared memory, which holds zeros where they do not.
    """
    text = source.text
    start = text.index("__global__")
    threads = {launch.symbol: launch.block for launch in source.launches}
    for match in _BARRIER.finditer(text, start):
        before = [symbol for symbol in threads if text.index(f"\n{symbol}(") < match.start()]
        if threads[before[-1]] > 1:
            yield _changed(source, "barrier deleted", match, ";")
    for match in _SHARED.finditer(text, start):
        if int(match.group(2)) > 1:
            halved = f"{match.group(1)}{int(match.group(2)) // 2}{match.group(3)}"
            yield _changed(source, "shared array halved", match, halved)
    pointer = re.compile(rf"\b(?:{'|'.join(_pointers(text))})\[")
    for match in _GUARD.finditer(text, start):
        statement = text[match.start() : text.index(";", match.start())]
        if pointer.search(statement):
            yield _changed(source, "guard dropped", match, "if (true || ")


def _pointers(text: str) -> set[str]:
    """Names of the kernels' parameters: global memory."""
    heads = re.findall(r"__global__[^(]*(?:\([^)]*\)[^(]*)?\(([^)]*)\)", text)
    return {name for head in heads for name in re.findall(r"(\w+)(?:,|$)", head.strip())}


def _changed(source: CudaSource, fault: str, match: re.Match[str], new: str) -> Mutant:
    line = source.text.count("\n", 0, match.start()) + 1
    text = source.text[: match.start()] + new + source.text[match.end() :]
    return Mutant(f"{fault} in line {line} of {source.name}", replace(source, text=text))
