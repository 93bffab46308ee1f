"""Elementary functions and operators of scalar expressions: ``exp(A[i, j])``.

Functions of floats keep the dtype of their operand (16-bit floats are computed in float32 and
rounded once).  On CPUs float32 results are within 4 units in the last place over the whole range,
float64 results within 2; infinities, NaN, overflow and numbers outside a function's domain give
what the C library gives.
"""

from typing import Any

from sketch.lang.expr import Expr, as_expr, binary, unary


def exp(value: Any) -> Expr:
    """``e ** value``."""
    return unary("exp", value)


def log(value: Any) -> Expr:
    """Natural logarithm; NaN below zero, minus infinity at zero."""
    return unary("log", value)


def sqrt(value: Any) -> Expr:
    """Square root; NaN below zero."""
    return unary("sqrt", value)


def rsqrt(value: Any) -> Expr:
    """``1 / sqrt(value)``."""
    return unary("rsqrt", value)


def tanh(value: Any) -> Expr:
    """Hyperbolic tangent."""
    return unary("tanh", value)


def erf(value: Any) -> Expr:
    """Gauss error function."""
    return unary("erf", value)


def sigmoid(value: Any) -> Expr:
    """``1 / (1 + exp(-value))``."""
    return unary("sigmoid", value)


def floor(value: Any) -> Expr:
    """The largest whole number that is not above ``value``, as a float."""
    return unary("floor", value)


def ceil(value: Any) -> Expr:
    """The smallest whole number that is not below ``value``, as a float."""
    return unary("ceil", value)


def expm1(value: Any) -> Expr:
    """``exp(value) - 1``, with all digits near zero."""
    return unary("expm1", value)


def log1p(value: Any) -> Expr:
    """``log(1 + value)``, with all digits near zero; NaN below -1."""
    return unary("log1p", value)


def sin(value: Any) -> Expr:
    """Sine; NaN of infinities."""
    return unary("sin", value)


def cos(value: Any) -> Expr:
    """Cosine; NaN of infinities."""
    return unary("cos", value)


def tan(value: Any) -> Expr:
    """Tangent; NaN of infinities."""
    return unary("tan", value)


def asin(value: Any) -> Expr:
    """Inverse sine; NaN outside [-1, 1]."""
    return unary("asin", value)


def acos(value: Any) -> Expr:
    """Inverse cosine; NaN outside [-1, 1]."""
    return unary("acos", value)


def atan(value: Any) -> Expr:
    """Inverse tangent."""
    return unary("atan", value)


def sinh(value: Any) -> Expr:
    """Hyperbolic sine."""
    return unary("sinh", value)


def cosh(value: Any) -> Expr:
    """Hyperbolic cosine."""
    return unary("cosh", value)


def asinh(value: Any) -> Expr:
    """Inverse hyperbolic sine."""
    return unary("asinh", value)


def acosh(value: Any) -> Expr:
    """Inverse hyperbolic cosine; NaN below 1."""
    return unary("acosh", value)


def atanh(value: Any) -> Expr:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    return unary("atanh", value)


def round(value: Any) -> Expr:
    """The nearest whole number, the even one of two, as a float."""
    return unary("round", value)


def trunc(value: Any) -> Expr:
    """The whole number next to ``value`` toward zero, as a float."""
    return unary("trunc", value)


def round_tf32(value: Any) -> Expr:
    """The float32 with 10 fraction bits nearest to a float32, ties away from zero: what tensor
    units of GPUs multiply as tf32.  Infinities and NaN stay; the largest floats become infinite.
    """
    return unary("round_tf32", value)


def ordinal(value: Any) -> Expr:
    """The place of a float of up to 32 bits among all float32, an int32: 0 of zeros, n of the nth
    number above them, -n of the nth below, the largest int32 of NaN.
    """
    return unary("ordinal", value)


def abs(value: Any) -> Expr:
    """Absolute value, of floats and integers."""
    return unary("abs", value)


def sign(value: Any) -> Expr:
    """1, 0 or -1, of floats and integers; NaN of NaN."""
    return unary("sign", value)


def isnan(value: Any) -> Expr:
    """Whether a float is NaN, as a bool."""
    return unary("is_nan", value)


def isinf(value: Any) -> Expr:
    """Whether a float is infinite, as a bool."""
    return unary("is_inf", value)


def pow(base: Any, exponent: Any) -> Expr:
    """``base ** exponent``.  Floats follow C; integers wrap around, and negative exponents give the
    quotient rounded toward zero (0 for base 0).
    """
    return binary("pow", base, exponent)


def trunc_div(dividend: Any, divisor: Any) -> Expr:
    """The quotient of integers rounded toward zero; 0 where the divisor is 0."""
    return binary("trunc_div", dividend, divisor)


def fmod(dividend: Any, divisor: Any) -> Expr:
    """The exact remainder with the sign of the dividend, of floats and integers; ``%`` has the sign
    of the divisor.  An integer divisor of 0 gives 0, a float one NaN.
    """
    return binary("trunc_mod", dividend, divisor)


def bitwise_and(lhs: Any, rhs: Any) -> Expr:
    """The bits that both integers have, ``lhs & rhs``."""
    return binary("bit_and", lhs, rhs)


def bitwise_or(lhs: Any, rhs: Any) -> Expr:
    """The bits that either integer has, ``lhs | rhs``."""
    return binary("bit_or", lhs, rhs)


def bitwise_xor(lhs: Any, rhs: Any) -> Expr:
    """The bits in which two integers differ, ``lhs ^ rhs``."""
    return binary("bit_xor", lhs, rhs)


def bitwise_not(value: Any) -> Expr:
    """All bits of an integer flipped, ``~value``."""
    return unary("bit_not", value)


def left_shift(value: Any, amount: Any) -> Expr:
    """``value << amount``; 0 where the amount is negative or not below the number of bits."""
    return binary("shift_left", value, amount)


def right_shift(value: Any, amount: Any) -> Expr:
    """``value >> amount``, which keeps the sign; amounts that are negative or not below the number
    of bits leave 0 (-1 of negative numbers).
    """
    return binary("shift_right", value, amount)


def all_of(*conditions: Any) -> Expr:
    """Logical and of one or more conditions."""
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = binary("and", result, condition)
    return result


def any_of(*conditions: Any) -> Expr:
    """Logical or of one or more conditions."""
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = binary("or", result, condition)
    return result


def equal(lhs: Any, rhs: Any) -> Expr:
    """``lhs == rhs`` as an expression."""
    return binary("eq", lhs, rhs)


def minimum(lhs: Any, rhs: Any) -> Expr:
    """The smaller operand; NaN if either is NaN."""
    return binary("min", lhs, rhs)


def maximum(lhs: Any, rhs: Any) -> Expr:
    """The larger operand; NaN if either is NaN."""
    return binary("max", lhs, rhs)
