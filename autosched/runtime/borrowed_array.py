"""Arrays of other libraries as they are meant: without what they only note to do later."""

from __future__ import annotations

from typing import Any, Final

# PyTorch negates and conjugates lazily: what asks whether that is due, and what does it.
_LAZY: Final = (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg"))


def resolved(value: Any) -> Any:
    """``value`` itself, or a copy where its memory holds other numbers than it stands for.

    DLPack tells of memory alone, so that the reader of a negated view would get the wrong sign.
    """
    for asks, does in _LAZY:
        if hasattr(value, asks) and getattr(value, asks)():
            value = getattr(value, does)()
    return value
