"""Which outputs of a network the steps write into arrays of the caller's: no copy is made then."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from autosched.runtime.wiring import Call, Wiring


def direct_outputs(wiring: Wiring, computed: Collection[str]) -> dict[str, int]:
    """The number of the output that each value is which need not lie in the arena.

    Parts of such a value may lie in it if only kernels take them: arguments of kernels can be
    bytes after the start of an array, those of evaluations on the host and outputs cannot.  A value
    that is several outputs is written into the first of them.

    Args:
        wiring: the network.
        computed: names of the values that steps write and that are no parts.
    """
    shared = {wiring.home(name) for name in _named_alone(wiring) if name in wiring.parts}
    found: dict[str, int] = {}
    for number, (spec, name) in enumerate(wiring.outputs):
        own = name in computed and name not in shared
        if own and wiring.sizes.get(name) == spec.size_bytes:
            found.setdefault(name, number)
    return found


def _named_alone(wiring: Wiring) -> Iterator[str]:
    """The values whose places have to be written without an offset into an array."""
    yield from (name for _, name in wiring.outputs)
    yield from (part.first for part in wiring.parts.values() if part.first is not None)
    for call in wiring.calls:
        if not isinstance(call, Call):
            yield from (*call.read, *call.written)
