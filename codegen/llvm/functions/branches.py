"""Functions of float32 whose far operands are left to the C library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from codegen.llvm.functions import libm
from codegen.llvm.functions.in_double import DoubleSteps
from codegen.llvm.writer import Writer


class BranchedLanes(DoubleSteps):
    """Code with a branch, in an IR function of its own; far operands are rare."""

    def near_or_library(
        self, symbol: str, near: Callable[[Self, tuple[str, ...]], tuple[str, str]], *operands: str
    ) -> str:
        """A function that is computed as ``near`` does it, but in lanes that are far.

        Args:
            symbol: of the C library's function of float32.
            near: writes the code with the lanes of that function; returns the result, and the test
                of where it is not valid.
            operands: names of SSA values.
        """
        name = f"near.{symbol}.{self.width}"
        if name not in self.writer.declarations:
            names = tuple(f"%x{n}" for n in range(len(operands)))
            self.writer.declarations[name] = self._function(name, symbol, near, names)
        arguments = ", ".join(f"{self.float} {operand}" for operand in operands)
        return self.writer.emit(f"call {self.float} @{name}({arguments})")

    def _function(
        self,
        name: str,
        symbol: str,
        near: Callable[[Self, tuple[str, ...]], tuple[str, str]],
        operands: tuple[str, ...],
    ) -> str:
        writer = Writer()
        writer.declarations = self.writer.declarations
        lanes = type(self)(writer, self.width, self.rounding)
        writer.open_block("entry")
        result, far = near(lanes, operands)
        writer.branch_if(lanes._any(far), "far", "done")
        writer.open_block("far")
        exact = libm.call(writer, symbol, "float", self.width, operands)
        exact = lanes.pick(far, exact, result)
        writer.branch("done")
        writer.open_block("done")
        total = writer.emit_free(f"phi {self.float} [{result}, %entry], [{exact}, %far]")
        writer.statement(f"ret {self.float} {total}")
        parameters = ", ".join(f"{self.float} {operand}" for operand in operands)
        writer.finish_function(f"internal {self.float} @{name}({parameters})", "nounwind")
        return writer.functions[0]

    def _any(self, test: str) -> str:
        """Whether a test holds in one lane at least, as an i1."""
        if not self.width:
            return test
        name = f"llvm.vector.reduce.or.v{self.width}i1"
        self.writer.declare(name, f"i1 {{}}({self.mask})")
        return self.writer.emit(f"call i1 @{name}({self.mask} {test})")
