"""Machine code of GPUs as text, and what the loop with most of the arithmetic is made of."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from functools import lru_cache
from pathlib import Path

_OPCODE = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+ )?([A-Z0-9]+(?:\.[A-Z0-9_]+)*)")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_BRANCH = re.compile(r"BRA.*?`\((\.L_x_\d+)\)")


@lru_cache(maxsize=1)
def disassembler() -> str | None:
    """The program nvdisasm: of its wheel, or of this machine."""
    places = Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin/nvdisasm")
    return str(next(places, "")) or shutil.which("nvdisasm")


def loop_of(cubin: bytes, folder: Path, opcode: str = "FFMA") -> Counter[str]:
    """How often each instruction stands in the longest loop that has ``opcode``; not those that
    the compiler makes to be skipped by all threads (``@!PT``).
    """
    command = disassembler()
    assert command is not None
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    done = subprocess.run([command, "-c", str(path)], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    labels = {m.group(1): n for n, line in enumerate(lines) if (m := _LABEL.match(line))}
    jumps = [(m.group(1), n) for n, line in enumerate(lines) if (m := _BRANCH.search(line))]
    loops = [(labels[to], n) for to, n in jumps if labels.get(to, n) < n]
    bodies = [lines[first : last + 1] for first, last in loops]
    body = max((b for b in bodies if any(opcode in line for line in b)), key=len, default=[])
    return Counter(m.group(1) for line in body if (m := _OPCODE.match(line)))


def count(found: Counter[str], opcode: str) -> int:
    """Of an instruction with whatever modifiers."""
    return sum(number for name, number in found.items() if name.split(".")[0] == opcode)
