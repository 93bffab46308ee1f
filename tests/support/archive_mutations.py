"""Damage to saved modules, by value; and a process in which damaged objects are linked.

``python -m tests.support.archive_mutations FILE SEED COUNT`` changes bytes of the objects of a
module, seals the archive again, and loads it, ``COUNT`` times: each time an error of ours, or a
module.
Nothing runs.  The last line says how many of them were refused.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import autosched as asd
from tests.support.archives import members_of, write_sealed

_ODD_VALUES: tuple[Any, ...] = (
    -1, 0, 1, 2, 63, 1 << 20, 1 << 31, 1 << 40, 1 << 62, 10**30, -(1 << 40), 0.5, 1e300,
    float("nan"), float("inf"), True, False, None, "", "x", "input", "output", "host", "object",
    "float64", [], {}, [0], ["arena", 0], ["constants", 1 << 40], [["arena", 1]],
)  # fmt: skip


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut off or put in."""
    found = bytearray(data)
    kind = rng.randrange(6)
    if kind == 0:
        return bytes(found[: rng.randrange(len(found) + 1)])
    if kind == 1:
        at = rng.randrange(len(found) + 1)
        return bytes(found[:at] + rng.randbytes(rng.randrange(1, 40)) + found[at:])
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at = rng.randrange(len(found))
        if kind == 2:
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            found[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        else:
            width = rng.choice((2, 4, 8))
            value = rng.choice((0, 1, 0xFFF1, 0xFFFF, 1 << 31, (1 << 64) - 1, 1 << 40))
            at -= at % width
            found[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(found)


def damaged_plan(plan: Any, rng: random.Random) -> Any:
    """A copy of a plan with one value changed, dropped or put in."""
    copy = json.loads(json.dumps(plan))
    holder, key = rng.choice([place for place in _places(copy)])
    kind = rng.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder[key], int):
        holder[key] += rng.choice((-64, -4, -1, 1, 4, 64))
    elif kind == 2 and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = rng.choice(_ODD_VALUES)
    return copy


def _places(value: Any) -> Any:
    """Every (container, key) below a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def main(source: Path, seed: int, count: int) -> None:
    """Damage, seal, load."""
    rng, members, refused = random.Random(seed), members_of(source), 0
    path = source.with_name(f"damaged{seed}.asd")
    objects = [name for name in members if name.startswith("objects/")]
    for _ in range(count):
        name = rng.choice(objects)
        write_sealed(path, members | {name: damaged_bytes(members[name], rng)})
        try:
            asd.load(path)
        except asd.AutoschedError:
            refused += 1
    print("refused", refused, "of", count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
