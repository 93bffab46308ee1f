"""Kernels of a PTX module, parsed: instructions, labels, and the memory that they declare."""

from __future__ import annotations

import re
from dataclasses import dataclass

Operand = str | tuple[str, ...]

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(")
_PARAMETER = re.compile(r"\.param\s+\.(\w+)(?:\s+\.ptr[^,\n)]*)?\s+([\w$]+)")
_THREADS = re.compile(r"\.(?:max|req)ntid\s+(\d+)")
_REGISTER = re.compile(r"\.reg\s+\.(\w+)\s+([^;]+);")
_VARIABLE = re.compile(
    r"\.(shared|local|global|const)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)"
    r"(\[\d*\])?(?:\s*=\s*\{([^}]*)\})?\s*;"
)
_LABEL = re.compile(r"^([\w$]+):")
_INSTRUCTION = re.compile(r"^(?:@(!?)([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.DOTALL)
_OPERANDS = re.compile(r",(?![^{\[]*[}\]])")
_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


class PtxError(AssertionError):
    """The text is no PTX that the interpreter knows."""


@dataclass(frozen=True, slots=True)
class Variable:
    """Memory with a name; ``values``: its bytes at the start, empty where it has none."""

    space: str
    name: str
    size: int  # bytes; 0: as many as the launch gives
    alignment: int
    values: bytes


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@guard opcode.modifiers operands``; a vector ``{a, b}`` is one operand, a tuple."""

    guard: str | None
    negated: bool
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    text: str


@dataclass(frozen=True, slots=True)
class PtxKernel:
    """One entry of a module.

    ``registers``: type by name, or by the stem of a counted name (``%r`` of ``%r<10>``).
    """

    name: str
    parameters: tuple[str, ...]
    threads: int | None  # of a block, where the text says it
    registers: dict[str, str]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def parse_ptx(text: str) -> dict[str, PtxKernel]:
    """The kernels of a module by name.  Raises PtxError on a statement that it cannot split."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    kernels, outside, position = {}, [], 0
    bodies = []
    for match in _ENTRY.finditer(text):
        opening = text.index("{", match.end())
        body = _block(text, opening)
        outside += _variables(text[position : match.start()])
        bodies.append((match.group(1), text[match.end() : opening], body))
        position = opening + len(body) + 2
    outside += _variables(text[position:])
    for name, head, body in bodies:
        kernels[name] = _kernel(name, head, body, tuple(outside))
    return kernels


def _block(text: str, opening: int) -> str:
    """What stands between a brace and its partner."""
    depth = 0
    for position in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[opening + 1 : position]
    raise PtxError("a brace without its partner")


def _variables(text: str) -> list[Variable]:
    found = []
    for space, alignment, kind, name, count, values in _VARIABLE.findall(text):
        width = _BYTES[kind[1:]]
        bytes_ = b"".join(
            (int(value, 0) % (1 << 8 * width)).to_bytes(width, "little")
            for value in filter(None, (part.strip() for part in values.split(",")))
        )
        size = width * int(count[1:-1] or 0) if count else width
        found.append(Variable(space, name, size, int(alignment or width), bytes_))
    return found


def _kernel(name: str, head: str, body: str, outside: tuple[Variable, ...]) -> PtxKernel:
    registers: dict[str, str] = {}
    for kind, names in _REGISTER.findall(body):
        for register in names.split(","):
            registers[register.strip().split("<")[0]] = kind
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for statement in _statements(body):
        while (match := _LABEL.match(statement)) is not None:
            labels[match.group(1)] = len(instructions)
            statement = statement[match.end() :].strip()
        if statement and not statement.startswith("."):
            instructions.append(_instruction(statement))
    threads = _THREADS.search(head)
    return PtxKernel(
        name,
        tuple(name for _, name in _PARAMETER.findall(head)),
        int(threads.group(1)) if threads else None,
        registers,
        (*outside, *_variables(body)),
        tuple(instructions),
        labels,
    )


def _statements(body: str) -> list[str]:
    """Statements without their semicolons; braces of inline assembly are dropped."""
    parts = re.sub(r"^\s*[{}]|\}\s*$", ";", body, flags=re.MULTILINE).split(";")
    return [part.strip() for part in parts if part.strip()]


def _instruction(statement: str) -> Instruction:
    match = _INSTRUCTION.match(statement)
    if match is None:
        raise PtxError(f"not an instruction: {statement!r}")
    negation, guard, name, rest = match.groups()
    opcode, *modifiers = name.split(".")
    operands = tuple(_operand(part.strip()) for part in _OPERANDS.split(rest)) if rest else ()
    return Instruction(
        guard or None, negation == "!", opcode, tuple(modifiers), operands, statement
    )


def _operand(text: str) -> Operand:
    if text.startswith("{"):
        return tuple(part.strip() for part in text.strip("{} ").split(","))
    return text
