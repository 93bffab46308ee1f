"""Damage to JSON, value by value."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, Final

_ODD: Final[tuple[Any, ...]] = (
    -1, 0, 1, 2, 3, 7, 63, 255, 2**16, 2**31, 2**40, 2**63, 10**30, -(2**40), 0.5, -0.0, 1e300,
    True, False, None, "", "x", "sum", "i.0", "direct", "9" * 400, [], {}, [0], [[1]], {"a": 1},
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value below."""
    keys: Any = ()
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        yield value, key
        yield from places(value[key])


def damaged(value: Any, rng: Random) -> Any:
    """A copy with one or two values changed, moved, dropped or repeated."""
    made = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2))):
        found = list(places(made))
        if not found:
            return made
        holder, key = rng.choice(found)
        _change(holder, key, found, rng)
    return made


def _change(holder: Any, key: Any, found: list[tuple[Any, Any]], rng: Random) -> None:
    old, kind = holder[key], rng.random()
    if type(old) in (int, float) and kind < 0.6:
        holder[key] = _number(old, rng)
    elif isinstance(old, str) and old and kind < 0.4:
        at = rng.randrange(len(old))
        holder[key] = old[:at] + rng.choice("0aZ._@ü\x00") + old[at + 1 :]
    elif kind < 0.7:
        holder[key] = rng.choice(_ODD)
    elif kind < 0.8:
        del holder[key]
    elif kind < 0.9 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(old))
    elif isinstance(holder, dict) and kind < 0.93:
        holder[f"{key}x"] = holder.pop(key)
    else:  # two values change places
        other, there = rng.choice(found)
        holder[key], other[there] = copy.deepcopy(other[there]), copy.deepcopy(old)


def _number(old: float, rng: Random) -> Any:
    """Another number: a digit, the sign, the size or the type is different."""
    digits = list(str(old))
    spots = [place for place, digit in enumerate(digits) if digit.isdigit()]
    digits[rng.choice(spots)] = rng.choice("0123456789")
    flipped = "".join(digits).lstrip("0") or "0"
    choices: list[Any] = [-old, old + 1, old - 1, old * 2, old * 1000, str(old), float(old)]
    with suppress(ValueError):
        choices += [type(old)(flipped)] * 4
    return rng.choice(choices)
