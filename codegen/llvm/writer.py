"""Text of one LLVM module: nested lists of lines, fresh names, basic blocks, declarations."""

from __future__ import annotations

from codegen.llvm.values import suffix, vector_type

Lines = list["str | Lines"]


class Writer:
    """Collects the lines of functions and what they need declared.

    A list inside the lines is a part that is filled in later (phis, hoisted address arithmetic).
    """

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.functions: list[str] = []
        self.lines: Lines = []
        self.block = "entry"
        self.instructions = 0
        self._names = 0
        self._templates: dict[tuple[str, str, int], str] = {}
        self._computed: dict[str, str] = {}  # names by text, of the block that is being written

    def fresh(self, hint: str = "v") -> str:
        """A new SSA name."""
        self._names += 1
        return f"%{hint}{self._names}"

    def label(self, hint: str) -> str:
        """A new block name, without ``%``."""
        self._names += 1
        return f"{hint}{self._names}"

    def open_block(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.block = label
        self._computed.clear()

    def branch(self, label: str) -> None:
        """Jump."""
        self.lines.append(f"  br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        """Conditional jump."""
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}")

    def part(self) -> Lines:
        """A place for lines that become known later."""
        part: Lines = []
        self.lines.append(part)
        return part

    def emit(self, text: str) -> str:
        """``%new = text``; one instruction of the computation itself."""
        self._names += 1
        name = f"%v{self._names}"
        self.instructions += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def emit_once(self, text: str) -> str:
        """``emit`` of what operands alone decide: equal texts are written once in a block."""
        name = self._computed.get(text)
        if name is None:
            name = self._computed[text] = self.emit(text)
        return name

    def emit_free(self, text: str) -> str:
        """``%new = text`` for address arithmetic, shuffles and the like: not counted."""
        self._names += 1
        name = f"%v{self._names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def statement(self, text: str) -> None:
        """An instruction without a result."""
        self.instructions += 1
        self.lines.append(f"  {text}")

    def declare(self, name: str, signature: str) -> None:
        """Declare an external function; ``signature`` has ``{}`` for the name."""
        self.declarations[name] = "declare " + signature.format("@" + name)

    def define(self, name: str, text: str) -> None:
        """Define a global."""
        self.declarations[name] = f"@{name} = {text}"

    def intrinsic(self, name: str, scalar: str, width: int, operands: tuple[str, ...]) -> str:
        """Call an LLVM intrinsic all of whose operands and result have one type.

        Args:
            name: without type suffix.
            scalar: type of a lane.
            width: lanes; 0: a scalar.
            operands: names of SSA values.
        """
        template = self._templates.get((name, scalar, width))
        if template is None:
            kind = vector_type(scalar, width)
            full = f"llvm.{name}.{suffix(scalar, width)}"
            self.declare(full, f"{kind} {{}}({', '.join([kind] * len(operands))})")
            arguments = ", ".join(f"{kind} %s" for _ in operands)
            template = f"call {kind} @{full}({arguments})"
            self._templates[name, scalar, width] = template
        return self.emit(template % operands)

    def finish_function(self, header: str, attributes: str) -> None:
        """Close the function that has been written into ``lines``."""
        parts = [f"define {header} {attributes} {{"]
        _flatten(self.lines, parts)
        parts.append("}")
        self.functions.append("\n".join(parts))
        self.lines = []
        self._computed.clear()

    def add_function(self, text: str) -> None:
        """A function, or what belongs to one, that is written already."""
        self.functions.append(text)

    def text(self, triple: str) -> str:
        """The whole module."""
        head = [f'target triple = "{triple}"']
        return "\n".join([*head, *self.declarations.values(), *self.functions, ""])


def _flatten(lines: Lines, into: list[str]) -> None:
    for line in lines:
        if isinstance(line, str):
            into.append(line)
        else:
            _flatten(line, into)
