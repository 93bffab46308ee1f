"""Powers of float32, by logarithms in float64: within 2 units in the last place."""

from __future__ import annotations

from codegen.llvm.functions.in_double import DoubleSteps


class PowerLanes(DoubleSteps):
    """``pow``.  Operands and results are SSA names."""

    def pow(self, x: str, y: str) -> str:
        """``x**y`` through log and exp in float64; C's rules for negative, zero, infinite, NaN."""
        size = self.fabs(x)
        result = self.narrowed(self.exp_double(self._times(self.log_double(self.widened(size)), y)))
        zero, infinity = self.const(0.0), self.const(float("inf"))
        rising = self.test("ogt", y, zero)
        at_zero = self.pick(rising, zero, infinity)
        result = self.pick(self.test("oeq", size, zero), at_zero, result)
        at_infinity = self.pick(rising, infinity, zero)
        result = self.pick(self.test("oeq", size, infinity), at_infinity, result)
        result = self._signed_power(x, y, result)
        unit = self.test("oeq", x, self.const(1.0))
        trivial = self.writer.emit(f"or {self.mask} {unit}, {self.test('oeq', y, zero)}")
        undefined = self.writer.emit(
            f"or {self.mask} {self.test('uno', x, x)}, {self.test('uno', y, y)}"
        )
        result = self.pick(undefined, self.const(float("nan")), result)
        return self.pick(trivial, self.const(1.0), result)

    def _signed_power(self, x: str, y: str, result: str) -> str:
        """Negative bases: odd exponents negate, fractions are NaN."""
        whole = self.test("oeq", self.floor(y), y)
        half = self.mul(y, self.const(0.5))
        even = self.test("oeq", self.floor(half), half)
        negative = self._op("icmp slt", self.int, self.bits(x), self.const_int(0))
        below = self.test("olt", x, self.const(0.0))
        finite = self.test("ogt", x, self.const(float("-inf")))
        odd = self._op("xor", self.mask, even, self._splat("i1", "true"))
        flip = self._op("and", self.mask, self._op("and", self.mask, whole, odd), negative)
        result = self.pick(flip, self.neg(result), result)
        broken = self._op("xor", self.mask, whole, self._splat("i1", "true"))
        bad = self._op("and", self.mask, self._op("and", self.mask, broken, below), finite)
        one = self.test("oeq", x, self.const(-1.0))
        endless = self.test("oeq", self.fabs(y), self.const(float("inf")))
        result = self.pick(self._op("and", self.mask, one, endless), self.const(1.0), result)
        return self.pick(bad, self.const(float("nan")), result)

    def _times(self, log_x: str, y: str) -> str:
        """``log_x * y``, limited to where exp of a float32 still changes."""
        product = self.doubles.mul(log_x, self.widened(y))
        for compare, limit in (("olt", -110.0), ("ogt", 95.0)):
            bound = self.doubles.const(limit)
            product = self.doubles.pick(self.doubles.test(compare, product, bound), bound, product)
        return product
