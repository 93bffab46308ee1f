"""C identifiers for buffers and loop variables."""

from __future__ import annotations

import re

# What C++ and the generated code itself use.
_RESERVED_TEXT = """
    ahead alignas alignof and asm auto bitand bitor block bool break case catch char class compl
    const constexpr continue decltype default delete do double else enum explicit export extern
    false first_row float for friend goto if inline int long mutable namespace new noexcept not
    now nullptr operator or place point private protected public register return round rows
    short signed sizeof slot static struct switch template this thread tile throw true try turn
    typedef typeid typename union unsigned using virtual void volatile while xor blockIdx
    blockDim gridDim threadIdx warpSize index_t floor_div floor_mod nan_max nan_min sigmoid powf
    expf logf sqrtf rsqrtf tanhf erff floorf ceilf fabsf
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())


def identifier(name: str) -> str:
    """``conv.local`` -> ``conv_local``; keeps letters, digits and underscores."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return text if text[:1].isalpha() else f"v_{text}"


class Identifiers:
    """Unique identifiers for objects, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._keep: list[object] = []  # an id stays unique while its object lives
        self._taken = set(_RESERVED)

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
