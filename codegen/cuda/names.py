"""C identifiers for buffers and loop variables."""

from __future__ import annotations

import re
from typing import Final

from codegen.cuda.prelude import FUNCTIONS
from sketch.lang.operator_names import FLOAT_CALLS

# What C++ reserves, and what the text of kernels has besides names of the program.
_WORDS: Final = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    ahead block blockDim blockIdx dynamic_shared first_row free gridDim index_t left now place
    point pragma round rows slot step thread threadIdx tile turn unroll warp warpSize warp_lane
    warp_term
    assert math_errhandling va_arg va_copy va_end va_start
"""
# Functions of CUDA that operators are, without the letter for float.
_CALLS: Final = ("fabs", "rint", "pow", *FLOAT_CALLS)
_FUNCTIONS: Final = frozenset((*_CALLS, *(f"{name}f" for name in _CALLS), *FUNCTIONS))
RESERVED: Final = frozenset(_WORDS.split()) | _FUNCTIONS
"""Words that no name of a program becomes."""

# As the macros of C's headers and of CUDA are called: INT_MAX, M_PIf, cudaStreamLegacy; and the
# functions of the tensor units of which there are many: wgmma_m64n256k16_bf16.
_MACRO: Final = re.compile(
    r"([A-Z]_?[A-Z]|M_[0-9])[A-Z0-9_]*(l|f([0-9]+x?)?)?|cuda[A-Z]\w*|wgmma_m\w*"
)


def identifier(name: str) -> str:
    """``conv.local`` -> ``conv_local``; keeps letters, digits and underscores, makes no macro
    and no tensor unit.
    """
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return text if text[:1].isalpha() and not _MACRO.fullmatch(text) else f"v_{text}"


class Identifiers:
    """Unique identifiers for objects, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._keep: list[object] = []  # an id stays unique while its object lives
        self._taken = set(RESERVED)

    def of(self, thing: object, name: str) -> str:
        """The identifier of ``thing``, made from ``name`` the first time."""
        known = self._names.get(id(thing))
        if known is None:
            known = self._names[id(thing)] = self.fresh(name)
            self._keep.append(thing)
        return known

    def fresh(self, name: str) -> str:
        """An identifier that nothing else has."""
        base = identifier(name)
        text, number = base, 1
        while text in self._taken:
            text, number = f"{base}_{number}", number + 1
        self._taken.add(text)
        return text
