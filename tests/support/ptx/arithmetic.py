"""What instructions compute: a function of typed operands for every opcode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.program import PtxError
from tests.support.ptx.values import as_type, bits_of, is_float, is_type, type_of

Array = NDArray[Any]
Modifiers = tuple[str, ...]
Compute = Callable[[Modifiers, tuple[Array, ...]], Array]

_WIDER: Final = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
_COMPARE: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal,
    "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def compute(opcode: str, modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """The bits of the result; ``operands`` are bits.  Raises PtxError on an unknown opcode."""
    function = _OPCODES.get(opcode)
    if function is None:
        raise PtxError(f"no instruction {opcode}.{'.'.join(modifiers)} is known")
    with np.errstate(all="ignore"):
        return bits_of(np.asarray(function(modifiers, operands)))


def _typed(name: str, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(as_type(operand, name) for operand in operands)


def _flushed(modifiers: Modifiers, values: Array) -> Array:
    """Without denormal numbers where the instruction says so."""
    if "ftz" not in modifiers or values.dtype != np.float32:
        return values
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def _narrowed(modifiers: Modifiers, exact: Array, name: str) -> Array:
    """A float64 result in the instruction's type and direction of rounding."""
    kind = type_of(name)
    values = exact.astype(kind)
    back = values.astype(np.float64)
    if "rm" in modifiers:
        values = np.where(back > exact, np.nextafter(values, kind.type(-np.inf)), values)
    elif "rp" in modifiers:
        values = np.where(back < exact, np.nextafter(values, kind.type(np.inf)), values)
    elif "rz" in modifiers:
        away = np.abs(back) > np.abs(exact)
        values = np.where(away, np.nextafter(values, kind.type(0)), values)
    if "sat" in modifiers:
        values = np.nan_to_num(np.clip(values, 0, 1), nan=0.0)
    return _flushed(modifiers, values)


def _float_or_integer(
    on_floats: Callable[..., Array], on_integers: Callable[..., Array] | None = None
) -> Compute:
    """An operation whose operands and result have the type of the last modifier.

    Floating-point operands are widened: the result is rounded once more, which changes at most the
    last bit of a fused operation.
    """

    def run(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
        name = modifiers[-1]
        values = _typed(name, operands)
        if not is_float(name):
            return np.asarray((on_integers or on_floats)(*values)).astype(type_of(name))
        wide = [_flushed(modifiers, value).astype(np.float64) for value in values]
        return _narrowed(modifiers, np.asarray(on_floats(*wide)), name)

    return run


def _multiply(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """``mul`` and ``mad`` of integers and floats: lo, hi or wide."""
    name = modifiers[-1]
    if is_float(name):
        return _float_or_integer(_fused)(modifiers, operands)
    first, second = _typed(name, operands[:2])
    if "wide" in modifiers:
        wide = _WIDER[name]
        product = first.astype(type_of(wide)) * second.astype(type_of(wide))
        return product + as_type(operands[2], wide) if len(operands) > 2 else product
    product = _high(first, second) if "hi" in modifiers else first * second
    return product + as_type(operands[2], name) if len(operands) > 2 else product


def _high(first: Array, second: Array) -> Array:
    """The upper half of a product."""
    width = 8 * first.dtype.itemsize
    if width < 64:
        wide = np.int64 if first.dtype.kind == "i" else np.uint64
        shift = np.array(width, wide)
        return ((first.astype(wide) * second.astype(wide)) >> shift).astype(first.dtype)
    exact = (first.astype(object) * second.astype(object)) >> 64
    return np.array([int(value) for value in exact.reshape(-1)], first.dtype).reshape(exact.shape)


def _fused(first: Array, second: Array, third: Array | float = 0.0) -> Array:
    return first * second + third if isinstance(third, np.ndarray) else first * second


def _divide(first: Array, second: Array) -> Array:
    """Towards zero."""
    safe = np.where(second == 0, 1, second)
    if first.dtype.kind == "u":
        return first // safe
    quotient = np.abs(first.astype(object)) // np.abs(safe.astype(object))
    signed = quotient * (np.sign(first.astype(object)) * np.sign(safe.astype(object)))
    return signed.astype(first.dtype)


def _remainder(first: Array, second: Array) -> Array:
    return first - _divide(first, second) * second


def _bitwise(function: Callable[[Array, Array], Array]) -> Compute:
    def run(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
        return function(*_typed(modifiers[-1], operands))

    return run


def _shift(left: bool) -> Compute:
    def run(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
        value = as_type(operands[0], modifiers[-1])
        width = 8 * value.dtype.itemsize
        amount = as_type(operands[1], "u32").astype(np.int64)
        inside = np.minimum(amount, width - 1).astype(value.dtype)
        moved = np.left_shift(value, inside) if left else np.right_shift(value, inside)
        if not left and value.dtype.kind == "i":
            return moved  # what is shifted out leaves the sign
        return np.where(amount < width, moved, np.zeros_like(moved))

    return run


def _to_tf32(values: Array) -> Array:
    """``cvt.rna.tf32.f32``: half of the last of 10 fraction bits, added to the size, carries."""
    exact = values.astype(np.float64)
    step = np.exp2(np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-126))) - 10)
    near = np.trunc(exact / step + np.copysign(0.5, exact)) * step
    return np.where(np.isfinite(exact), near, exact).astype(np.float32)


def _convert(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    if modifiers == ("rna", "tf32", "f32"):
        return _to_tf32(as_type(operands[0], "f32"))
    to, source = [name for name in modifiers if is_type(name)]
    values = _flushed(modifiers, as_type(operands[0], source))
    if is_float(source):
        rounding = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
        for name, function in rounding.items():
            if name in modifiers:
                values = function(values.astype(np.float64))
    if is_float(to):
        return _narrowed(modifiers, values.astype(np.float64), to)
    if is_float(source):
        limits = np.iinfo(type_of(to))
        low, high = float(limits.min), float(limits.max)
        inside = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=high, neginf=low)
        whole = np.where(inside >= high, limits.max, np.clip(inside, low, None).astype(object))
        return np.array([int(value) for value in whole.reshape(-1)], type_of(to)).reshape(
            values.shape
        )
    if "sat" in modifiers:
        limits = np.iinfo(type_of(to))
        values = np.clip(values, max(limits.min, np.iinfo(values.dtype).min), limits.max)
    return values.astype(type_of(to))


def _set_predicate(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    first, second = _typed(modifiers[-1], operands[:2])
    relation = modifiers[0]
    if not is_float(modifiers[-1]):
        return _COMPARE[relation](first, second)
    first, second = _flushed(modifiers, first), _flushed(modifiers, second)
    unordered = np.isnan(first) | np.isnan(second)
    if relation in ("num", "nan"):
        return unordered if relation == "nan" else ~unordered
    if relation.endswith("u") and relation[:-1] in _COMPARE:
        return _COMPARE[relation[:-1]](first, second) | unordered
    return _COMPARE[relation](first, second) & ~unordered


def _combined(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """``setp`` with a second condition: ``setp.lt.and.f32 p, a, b, q``."""
    for name, function in (
        ("and", np.logical_and),
        ("or", np.logical_or),
        ("xor", np.logical_xor),
    ):
        if name in modifiers and len(operands) == 3:
            return function(_set_predicate(modifiers, operands), operands[2])
    return _set_predicate(modifiers, operands)


def _select(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    first, second = _typed(modifiers[-1], operands[:2])
    return np.where(operands[2].astype(bool), first, second)


def _move(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    return as_type(operands[0], modifiers[-1])


def _not(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    return ~as_type(operands[0], modifiers[-1])


def _extract_bits(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """``bfe``: ``length`` bits from ``position`` on, sign-extended for signed types."""
    value = as_type(operands[0], modifiers[-1]).astype(object)
    position, length = (as_type(operand, "u32").astype(object) & 255 for operand in operands[1:])
    field = (value >> position) & ((1 << length) - 1)
    if modifiers[-1].startswith("s"):
        negative = (length > 0) & ((field >> np.maximum(length - 1, 0)) & 1 == 1)
        field = np.where(negative, field - (1 << length), field)
    return field.astype(type_of(modifiers[-1]))


def _insert_bits(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """``bfi``: the second operand, with ``length`` bits of the first from ``position`` on."""
    bits = int(modifiers[-1][1:])
    field, value = (as_type(operand, f"u{bits}").astype(object) for operand in operands[:2])
    position, length = (as_type(operand, "u32").astype(object) & 255 for operand in operands[2:])
    taken = (((1 << length) - 1) << position) & ((1 << bits) - 1)
    return ((value & ~taken) | ((field << position) & taken)).astype(f"uint{bits}")


def _logic3(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """``lop3``: every bit by a table of eight entries."""
    first, second, third = _typed("b32", operands[:3])
    table = int(operands[3].reshape(-1)[0])
    result = np.zeros_like(first)
    for entry in range(8):
        if table >> entry & 1:
            result |= (
                (first if entry & 4 else ~first)
                & (second if entry & 2 else ~second)
                & (third if entry & 1 else ~third)
            )
    return result


def _permute(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """``prmt``: four bytes chosen of eight."""
    first, second, choice = _typed("b32", operands)
    both = first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)
    result = np.zeros_like(first)
    for byte in range(4):
        chosen = (choice >> np.uint32(4 * byte)) & np.uint32(15)
        value = (both >> ((chosen & np.uint32(7)).astype(np.uint64) * np.uint64(8))) & np.uint64(
            255
        )
        sign = np.where(value & np.uint64(128), np.uint64(255), np.uint64(0))
        value = np.where(chosen & np.uint32(8), sign, value)
        result |= value.astype(np.uint32) << np.uint32(8 * byte)
    return result


def _funnel(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    """``shf``: a shift of two registers taken together."""
    low, high, amount = _typed("u32", operands)
    shift = (amount & 31 if "wrap" in modifiers else np.minimum(amount, 32)).astype(np.uint64)
    both = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    if "r" in modifiers:
        return (both >> shift).astype(np.uint32)
    return ((both << shift) >> np.uint64(32)).astype(np.uint32)


def _dot(width: int) -> Compute:
    """``dp4a`` and ``dp2a``: products of bytes with ``width``-byte numbers, added to a third."""

    def run(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
        signs = [name[0] == "s" for name in modifiers if is_type(name)]
        first = _parts(operands[0], width, signs[0])
        second = _parts(operands[1], 1, signs[1])
        begin = 2 if "hi" in modifiers else 0
        second = second[..., begin : begin + first.shape[-1]]
        total = (first * second).sum(axis=-1)
        kind = "s32" if any(signs) else "u32"
        return total.astype(type_of(kind)) + as_type(operands[2], kind)

    return run


def _parts(operand: Array, width: int, signed: bool) -> Array:
    """The 1- or 2-byte numbers of a register, lowest first, as int64."""
    values = np.ascontiguousarray(as_type(operand, "b32"))
    kind = f"{'i' if signed else 'u'}{width}"
    return values.view(kind).reshape(*values.shape, 4 // width).astype(np.int64)


def _test(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    values = as_type(operands[0], modifiers[-1])
    tests = {
        "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan,
        "number": lambda x: ~np.isnan(x),
    }  # fmt: skip
    return tests[modifiers[0]](values)


def _count_ones(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    return np.bitwise_count(as_type(operands[0], modifiers[-1])).astype(np.uint32)


def _leading_zeros(modifiers: Modifiers, operands: tuple[Array, ...]) -> Array:
    value = as_type(operands[0], modifiers[-1])
    width = 8 * value.dtype.itemsize
    lengths = [width - int(number).bit_length() for number in value.reshape(-1)]
    return np.array(lengths, np.uint32).reshape(value.shape)


_OPCODES: Final[Mapping[str, Compute]] = {
    "add": _float_or_integer(np.add),
    "sub": _float_or_integer(np.subtract),
    "mul": _multiply,
    "mad": _multiply,
    "fma": _float_or_integer(_fused),
    "div": _float_or_integer(np.divide, _divide),
    "rem": _float_or_integer(np.fmod, _remainder),
    "min": _float_or_integer(np.fmin, np.minimum),
    "max": _float_or_integer(np.fmax, np.maximum),
    "abs": _float_or_integer(np.abs),
    "neg": _float_or_integer(np.negative),
    "sqrt": _float_or_integer(np.sqrt),
    "rsqrt": _float_or_integer(lambda x: 1 / np.sqrt(x)),
    "rcp": _float_or_integer(lambda x: 1 / x),
    "ex2": _float_or_integer(np.exp2),
    "lg2": _float_or_integer(np.log2),
    "sin": _float_or_integer(np.sin),
    "cos": _float_or_integer(np.cos),
    "tanh": _float_or_integer(np.tanh),
    # PTX gives the sign first: copysign(d, sign, magnitude).
    "copysign": _float_or_integer(lambda sign, size: np.copysign(size, sign)),
    "and": _bitwise(np.bitwise_and),
    "or": _bitwise(np.bitwise_or),
    "xor": _bitwise(np.bitwise_xor),
    "not": _not,
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "shf": _funnel,
    "bfe": _extract_bits,
    "bfi": _insert_bits,
    "lop3": _logic3,
    "prmt": _permute,
    "popc": _count_ones,
    "clz": _leading_zeros,
    "dp4a": _dot(1),
    "dp2a": _dot(2),
    "cvt": _convert,
    "setp": _combined,
    "selp": _select,
    "mov": _move,
    "testp": _test,
}
