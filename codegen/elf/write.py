"""A merged object as a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Final

import numpy as np

from codegen.elf.layout import (
    HEADER,
    IDENT,
    NOBITS,
    RELOCATABLE,
    SECTION,
    STRTAB,
    Section,
    section_header,
)
from codegen.elf.merge import Merged

_NAMES: Final = ".shstrtab"


def write_object(merged: Merged, stream: BinaryIO) -> None:
    """Write an object to a file that is open for writing; large sections are not copied."""
    strings = bytearray(b"\0")
    starts = []
    for name in (*(section.name for section in merged.sections), _NAMES):
        starts.append(len(strings) if name else 0)
        strings += name.encode() + b"\0" if name else b""
    content = np.frombuffer(bytes(strings), np.uint8)
    sections = (*merged.sections, Section(_NAMES, section_header(STRTAB), content))
    headers = np.zeros(len(sections), SECTION)
    offset = HEADER.itemsize
    for number, section in enumerate(sections):
        headers[number] = section.header
        row = headers[number]
        row["name"] = starts[number]
        if int(row["type"]) != NOBITS:
            row["size"] = len(section.content)
        offset += -offset % max(int(row["addralign"]), 1)
        row["offset"] = offset if number else 0
        offset += len(section.content)
    table = offset + -offset % 8
    stream.write(_file_header(merged, table, len(sections)))
    _write_contents(stream, sections, headers["offset"].tolist())
    _pad(stream, table)
    stream.write(headers.tobytes())


def _file_header(merged: Merged, table: int, count: int) -> bytes:
    values = (
        IDENT, RELOCATABLE, merged.machine, 1, 0, 0, table, merged.flags, HEADER.itemsize, 0, 0,
        SECTION.itemsize, count, count - 1,
    )  # fmt: skip
    return np.array(values, HEADER).tobytes()


def _write_contents(stream: BinaryIO, sections: Sequence[Section], offsets: Sequence[int]) -> None:
    for section, offset in zip(sections, offsets, strict=True):
        if len(section.content):
            _pad(stream, offset)
            stream.write(section.content.data)


def _pad(stream: BinaryIO, offset: int) -> None:
    stream.write(bytes(offset - stream.tell()))
