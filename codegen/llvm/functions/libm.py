"""Calls of the C mathematics library, lane by lane."""

from __future__ import annotations

from codegen.llvm.values import vector_type
from codegen.llvm.writer import Writer


def call(writer: Writer, symbol: str, scalar: str, width: int, operands: tuple[str, ...]) -> str:
    """A function of the C library, called for each lane.

    The lanes are taken apart in a function of their own, so that unrolled code stays small.

    Args:
        writer: of the function's IR.
        symbol: name in the library.
        scalar: type of operands and result: ``float`` or ``double``.
        width: lanes; 0: a scalar.
        operands: names of SSA values.
    """
    kind = vector_type(scalar, width)
    parameters = ", ".join([scalar] * len(operands))
    writer.declare(symbol, f"{scalar} {{}}({parameters})")
    name = symbol
    if width:
        name = f"lanes.{symbol}.{width}"
        if name not in writer.declarations:
            writer.declarations[name] = _lanes(name, symbol, scalar, width, len(operands))
    arguments = ", ".join(f"{kind} {operand}" for operand in operands)
    return writer.emit(f"call {kind} @{name}({arguments})")


def _lanes(name: str, symbol: str, scalar: str, width: int, arity: int) -> str:
    kind = vector_type(scalar, width)
    lines: list[str] = []
    total = "poison"
    for lane in range(width):
        for n in range(arity):
            lines.append(f"  %x{n}.{lane} = extractelement {kind} %x{n}, i64 {lane}")
        operands = ", ".join(f"{scalar} %x{n}.{lane}" for n in range(arity))
        lines.append(f"  %y{lane} = call {scalar} @{symbol}({operands})")
        lines.append(f"  %t{lane} = insertelement {kind} {total}, {scalar} %y{lane}, i64 {lane}")
        total = f"%t{lane}"
    parameters = ", ".join(f"{kind} %x{n}" for n in range(arity))
    head = f"define internal {kind} @{name}({parameters}) nounwind {{"
    return "\n".join([head, *lines, f"  ret {kind} {total}", "}"])
