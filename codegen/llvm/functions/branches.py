"""Functions in IR functions of their own, whose far operands are left to the C library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from codegen.llvm.functions import libm
from codegen.llvm.functions.operations import FloatOperations
from codegen.llvm.writer import Writer


class Branches(FloatOperations):
    """Long code, and code with a branch: far operands are rare."""

    def near_or_library(
        self, symbol: str, near: Callable[[Self, tuple[str, ...]], tuple[str, str]], *operands: str
    ) -> str:
        """A function that is computed as ``near`` does it, but in lanes that are far.

        Args:
            symbol: of the C library's function of these floats.
            near: writes the code with the lanes of that function; returns the result, and the test
                of where it is not valid.
            operands: names of SSA values.
        """

        def body(lanes: Self, names: tuple[str, ...]) -> str:
            result, far = near(lanes, names)
            return lanes._or_library(symbol, result, far, names)

        return self.apart(f"near.{symbol}", body, *operands)

    def apart(self, name: str, body: Callable[[Self, tuple[str, ...]], str], *operands: str) -> str:
        """A function as one of its own, so that unrolled code stays small.

        Args:
            name: of that function.
            body: writes the code with the lanes of that function; returns the result.
            operands: names of SSA values.
        """
        name = f"{name}.{self.width}"
        if name not in self.writer.declarations:
            names = tuple(f"%x{n}" for n in range(len(operands)))
            self.writer.declarations[name] = self._function(name, body, names)
        arguments = ", ".join(f"{self.float} {operand}" for operand in operands)
        return self.writer.emit_once(f"call {self.float} @{name}({arguments})")

    def _function(
        self,
        name: str,
        body: Callable[[Self, tuple[str, ...]], str],
        operands: tuple[str, ...],
    ) -> str:
        writer = Writer()
        writer.declarations = self.writer.declarations
        writer.open_block("entry")
        result = body(self.into(writer), operands)
        writer.statement(f"ret {self.float} {result}")
        parameters = ", ".join(f"{self.float} {operand}" for operand in operands)
        writer.finish_function(f"internal {self.float} @{name}({parameters})", "nounwind")
        return writer.functions[0]

    def _or_library(self, symbol: str, result: str, far: str, operands: tuple[str, ...]) -> str:
        """``result``, and the library's where ``far`` holds; ends the entry block."""
        writer = self.writer
        writer.branch_if(self._any(far), "far", "done")
        writer.open_block("far")
        exact = libm.call(writer, symbol, self.scalar, self.width, operands)
        exact = self.pick(far, exact, result)
        writer.branch("done")
        writer.open_block("done")
        return writer.emit_free(f"phi {self.float} [{result}, %entry], [{exact}, %far]")

    def _any(self, test: str) -> str:
        """Whether a test holds in one lane at least, as an i1."""
        if not self.width:
            return test
        name = f"llvm.vector.reduce.or.v{self.width}i1"
        self.writer.declare(name, f"i1 {{}}({self.mask})")
        return self.writer.emit(f"call i1 @{name}({self.mask} {test})")
