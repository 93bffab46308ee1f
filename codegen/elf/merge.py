"""Several relocatable objects as one, whose symbols are private but for those that are exported.

What ``ld -r`` and ``objcopy --keep-global-symbol`` do, where neither is installed: sections are
kept apart, symbol tables united, and each relocation is given its symbol's new number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.elf.layout import (
    ADDRESS_SIGNIFICANCE,
    FILE,
    FIRST_RESERVED,
    GLOBAL,
    LINK_ORDER,
    LOCAL,
    NOBITS,
    PROGBITS,
    RELA,
    RELOCATION,
    STRTAB,
    SYMBOL,
    SYMTAB,
    UNDEFINED,
    UNWIND,
    ObjectFile,
    Section,
    null_section,
    section_header,
)
from codegen.errors import ObjectFileError

# Rebuilt, or of no use in a merged object.
_DROPPED = (0, SYMTAB, STRTAB, ADDRESS_SIGNIFICANCE)
_COPIED = (PROGBITS, NOBITS, UNWIND, RELA)
_STACK_NOTE = ".note.GNU-stack"


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """The one object.

    Attributes:
        sections: by index, with names and links, ready to be written.
        undefined: symbols that others must define.
    """

    machine: int
    flags: int
    sections: tuple[Section, ...]
    undefined: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Symbol:
    """A symbol of the result: its name, row, and section (of the result)."""

    name: str
    row: Any
    section: int


def merge_objects(objects: Sequence[ObjectFile], exported: Collection[str]) -> Merged:
    """Unite objects; only the symbols in ``exported`` stay visible to others.

    Raises:
        ObjectFileError: a symbol is defined twice, an exported one is missing, machines differ, or
            a section is of a kind that cannot be copied.
    """
    _check_machines(objects)
    maps = _section_numbers(objects)
    symbols, numbers = _unite(objects, maps, exported)
    first_global = next(
        (n for n, symbol in enumerate(symbols) if symbol.row["info"] >> 4 != LOCAL), len(symbols)
    )
    count = 1 + sum(len(kept) for kept in maps)
    sections = [null_section()]
    for item, kept, new in zip(objects, maps, numbers, strict=True):
        sections += [_copy(item.sections[old], kept, new, symbol_table=count) for old in kept]
    note = Section(_STACK_NOTE, section_header(PROGBITS), np.empty(0, np.uint8))
    table, strings = _symbol_table(symbols)
    header = section_header(SYMTAB, 0, 8, SYMBOL.itemsize)
    header["link"], header["info"] = count + 1, first_global
    sections += [
        Section(".symtab", header, table),
        Section(".strtab", section_header(STRTAB), strings),
        note,
    ]
    undefined = tuple(s.name for s in symbols if s.section == UNDEFINED and s.name)
    return Merged(objects[0].machine, objects[0].flags, tuple(sections), undefined)


def _check_machines(objects: Sequence[ObjectFile]) -> None:
    machines = {item.machine for item in objects}
    if len(machines) != 1:
        raise ObjectFileError(f"objects of {len(machines)} different machines cannot be merged")


def _section_numbers(objects: Sequence[ObjectFile]) -> list[dict[int, int]]:
    """For each object: number in the result by number in the object, of the sections kept."""
    maps: list[dict[int, int]] = []
    following = 1
    for item in objects:
        kept = {}
        for old, section in enumerate(item.sections):
            kind = int(section.header["type"])
            if kind in _DROPPED or section.name == _STACK_NOTE:
                continue
            if kind not in _COPIED:
                raise ObjectFileError(f"section {section.name!r} of type {kind:#x} is unknown")
            kept[old] = following
            following += 1
        maps.append(kept)
    if following + 4 >= FIRST_RESERVED:
        raise ObjectFileError(f"{following} sections are too many for one object")
    return maps


def _unite(
    objects: Sequence[ObjectFile], maps: Sequence[dict[int, int]], exported: Collection[str]
) -> tuple[list[_Symbol], list[NDArray[np.uint32]]]:
    """Symbols of the result, private ones first, and for each object new numbers by old ones."""
    private: list[tuple[int, int]] = []
    public: dict[str, tuple[int, int]] = {}  # defined and exported, or undefined everywhere
    defined: dict[str, tuple[int, int]] = {}
    for place, symbol, name in _symbols(objects):
        if int(symbol["section"]) == UNDEFINED or symbol["info"] >> 4 == LOCAL:
            continue
        if name in defined:
            raise ObjectFileError(f"symbol {name!r} is defined twice")
        defined[name] = place
    missing = sorted(set(exported) - set(defined))
    if missing:
        raise ObjectFileError(f"symbols to export are not defined: {', '.join(missing)}")
    for place, symbol, name in _symbols(objects):
        if int(symbol["section"]) == UNDEFINED:
            if name not in defined:
                public.setdefault(name, place)
        elif symbol["info"] >> 4 != LOCAL and name in exported:
            public[name] = place
        else:
            private.append(place)
    order = [*private, *public.values()]
    number_of = {place: number for number, place in enumerate(order, start=1)}
    numbers = [np.zeros(len(item.symbols), np.uint32) for item in objects]
    for place, symbol, name in _symbols(objects):
        is_reference = int(symbol["section"]) == UNDEFINED
        home = (defined.get(name) or public[name]) if is_reference else place
        numbers[place[0]][place[1]] = number_of[home]
    null = _Symbol("", np.zeros((), SYMBOL)[()], UNDEFINED)
    return [null, *(_renumbered(objects, maps, place, exported) for place in order)], numbers


def _symbols(objects: Sequence[ObjectFile]) -> list[tuple[tuple[int, int], Any, str]]:
    """Place (object, symbol), row and name of all symbols but null and file names."""
    return [
        ((number, index), item.symbols[index], item.names[index])
        for number, item in enumerate(objects)
        for index in range(1, len(item.symbols))
        if item.symbols[index]["info"] & 15 != FILE
    ]


def _renumbered(
    objects: Sequence[ObjectFile],
    maps: Sequence[dict[int, int]],
    place: tuple[int, int],
    exported: Collection[str],
) -> _Symbol:
    number, index = place
    row, name = objects[number].symbols[index].copy(), objects[number].names[index]
    section = int(row["section"])
    if section == UNDEFINED:
        return _Symbol(name, row, UNDEFINED)
    is_public = row["info"] >> 4 != LOCAL and name in exported
    row["info"] = (GLOBAL if is_public else LOCAL) << 4 | row["info"] & 15
    row["other"] = 0
    return _Symbol(name, row, section if section >= FIRST_RESERVED else maps[number][section])


def _copy(
    section: Section, kept: dict[int, int], numbers: NDArray[np.uint32], symbol_table: int
) -> Section:
    header, content = section.header.copy(), section.content
    if int(header["type"]) == RELA:
        header["link"], header["info"] = symbol_table, kept[int(header["info"])]
        rows = content.view(RELOCATION).copy()
        rows["symbol"] = numbers[rows["symbol"]]
        content = rows.view(np.uint8)
    elif int(header["flags"]) & LINK_ORDER:
        header["link"] = kept[int(header["link"])]
    return Section(section.name, header, content)


def _symbol_table(symbols: Sequence[_Symbol]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The table and its strings."""
    table = np.zeros(len(symbols), SYMBOL)
    strings = bytearray(b"\0")
    for number, symbol in enumerate(symbols):
        table[number] = symbol.row
        table[number]["section"] = symbol.section
        table[number]["name"] = len(strings) if symbol.name else 0
        if symbol.name:
            strings += symbol.name.encode() + b"\0"
    return table.view(np.uint8), np.frombuffer(bytes(strings), np.uint8)
