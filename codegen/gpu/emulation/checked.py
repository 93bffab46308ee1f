"""CUDA programs on this CPU with every access to memory checked, each in a process of its own.

Arrays and pointers of the text become objects that know their sizes and who touched which element
since which barrier; see ``checked.h``.  A fault ends the process with a message.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from ctypes import c_uint8
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codegen.cuda.kernel import CudaSource, Launch
from codegen.errors import CodegenError
from codegen.file_cache import FileCache
from codegen.gpu.emulation.library import FOLDER, EmulationError, build_unit
from codegen.kernel import Argument
from sketch.lang.dtypes import size_of

_ALIGNMENT: Final = 64  # of buffers in the file that a program works on
_DYNAMIC_ALIGNMENT: Final = 1024  # of what a launch gives a block
_SECONDS: Final = 60.0
_LEVEL: Final = "-O1"
_TYPE: Final = r"((?:unsigned |signed |long )?\w+)"
_DECLARED: Final = re.compile(
    rf"^(\s*)(__shared__ )?(?:__align__\((\d+)\) )?{_TYPE} (\w+)\[(\d+)\];", re.MULTILINE
)
# An array in what a launch gives a block, and the bytes from its start.
_CARVED: Final = re.compile(
    rf"^(\s*){_TYPE} \(&(\w+)\)\[(\d+)\] = [^;]*dynamic_shared \+ (\d+)\);", re.MULTILINE
)
_DYNAMIC: Final = re.compile(r"^\s*DYNAMIC_SHARED\(\d+\);", re.MULTILINE)
_PARAMETER: Final = re.compile(rf"(?:const )?{_TYPE}\* __restrict__ (\w+)")


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """One program of an executable; ``kept``: its outputs hold values before it runs."""

    source: CudaSource
    executable: Path
    number: int
    kept: bool = False

    def run(
        self, arrays: Mapping[str, NDArray[Any]], reverse: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Outputs by name, from inputs and constants by name, and from outputs that are kept.

        ``reverse``: threads and blocks in descending order.

        Raises:
            EmulationError: what no GPU allows, or what depends on the order of threads: an access
                out of bounds, misaligned or of what nothing has written, a race, a barrier or an
                exchange of values that some threads miss, a crash.
        """
        layout, total = _layout(self.source)
        memory = np.full(total, 0xFF, np.uint8)
        for argument in self.source.arguments:
            if argument.scope != "output" or self.kept:
                start, size = layout[argument.name]
                values = np.ascontiguousarray(arrays[argument.name], argument.dtype)
                memory[start : start + size] = values.reshape(-1).view(np.uint8)
        with tempfile.NamedTemporaryFile(prefix="autosched-") as file:
            memory.tofile(file.name)
            self._execute(Path(file.name), reverse)
            memory = np.fromfile(file.name, np.uint8)
        outputs = {}
        for argument in self.source.arguments:
            if argument.scope == "output":
                start, size = layout[argument.name]
                values = memory[start : start + size].view(argument.dtype)
                outputs[argument.name] = values.reshape(argument.shape)
        return outputs

    def run_at(self, addresses: Sequence[int]) -> None:
        """Run on buffers in this process, in the order of the arguments.

        Raises:
            EmulationError: as ``run``.
        """
        memory = {
            argument.name: np.ctypeslib.as_array((c_uint8 * argument.shape[0]).from_address(at))
            for argument, at in zip(self.source.arguments, addresses, strict=True)
        }
        for name, result in self.run(memory).items():
            memory[name][...] = result

    def _execute(self, file: Path, reverse: bool) -> None:
        command = [str(self.executable), str(self.number), str(int(reverse)), str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise EmulationError(f"{self.source.name} runs for more than {_SECONDS:g} s") from error
        if done.returncode < 0:
            raise EmulationError(f"{self.source.name} ends with signal {-done.returncode}")
        if done.returncode:
            raise EmulationError(f"{self.source.name}: {done.stderr.strip()}")


def compile_checked(
    sources: Sequence[CudaSource], folder: Path, level: str = "-O0"
) -> list[CheckedProgram]:
    """Build all programs as one executable in ``folder``.

    Args:
        sources: the programs.
        folder: where the executable is written.
        level: of the compiler's optimisation; none is the fastest for programs that run a few
            times and do little.

    Raises:
        CodegenError: there is no compiler, or it refuses a program.
    """
    executable = folder / "checked"
    build_unit(_unit(sources), executable, (level,))
    return [CheckedProgram(source, executable, number) for number, source in enumerate(sources)]


def checked_launches(source: CudaSource, cache: FileCache) -> list[CheckedProgram]:
    """Each launch of a program by itself; its arguments are bytes.

    Raises:
        CodegenError: there is no compiler, or it refuses the program.
    """
    alone = [_alone(source, launch) for launch in source.launches]
    text = _unit(alone, kept=True)
    headers = "".join(path.read_text() for path in sorted(FOLDER.glob("*.h")))
    known = hashlib.sha256("\0".join((text, headers, _LEVEL)).encode()).hexdigest()
    executable = cache.file(f"{known}.checked", lambda path: build_unit(text, path, (_LEVEL,)))
    return [
        CheckedProgram(each, executable, number, kept=True) for number, each in enumerate(alone)
    ]


def _alone(source: CudaSource, launch: Launch) -> CudaSource:
    """A program of one launch, whose buffers are all arguments."""
    sizes = _buffers(source)
    arguments = (
        Argument(name, "uint8", (sizes[name],), "input" if kind.startswith("const ") else "output")
        for name, kind in zip(launch.buffers, launch.parameters, strict=True)
    )
    return replace(source, launches=(launch,), arguments=tuple(arguments), workspaces=())


def _unit(sources: Sequence[CudaSource], kept: bool = False) -> str:
    """C++ of programs, with a ``main`` that takes a program's number, the order and a file."""
    parts = ['#include "checked.h"']
    for number, source in enumerate(sources):
        parts.append(f"namespace program_{number} {{\n{_checked_text(source)}\n}}")
        parts.append(_runner(source, number, kept))
    programs = ", ".join(
        f"{{memory_{number}, {len(_buffers(source))}, run_{number}}}"
        for number, source in enumerate(sources)
    )
    parts.append(f"static checked::Program programs[] = {{{programs}}};")
    parts.append(
        "int main(int, char **words) {\n"
        "  return checked::run(programs[atoi(words[1])], atoi(words[2]), words[3]);\n}\n"
    )
    return "\n".join(parts)


def _runner(source: CudaSource, number: int, kept: bool) -> str:
    """The buffers of a program, and a function that runs its launches."""
    buffers = _buffers(source)
    given = {argument.name for argument in source.arguments if argument.scope != "output"}
    table = ", ".join(
        # names are the user's: with quotes and line ends escaped as C has them
        f"{{{json.dumps(name, ensure_ascii=False)}, {size}, {int(kept or name in given)}, "
        f"{int(name in given)}}}"
        for name, size in buffers.items()
    )
    places = {name: place for place, name in enumerate(buffers)}
    lines = [f"static checked::Memory memory_{number}[] = {{{table}}};"]
    calls = []
    for launch in source.launches:
        body = f"body_{launch.symbol}_{number}"
        used = ", ".join(f"memory_{number}[{places[name]}]" for name in launch.buffers)
        call = f"program_{number}::{launch.symbol}({used});"
        lines.append(f"static void {body}(void **) {{ {call} }}")
        calls.append(
            f"  if (const int status = emulator::launch({body}, nullptr, "
            f"{{0, {launch.grid}}}, {launch.block}, reverse))\n    return checked::explain(status);"
        )
    run = [f"static int run_{number}(bool reverse) {{", *calls, "  return 0;", "}"]
    return "\n".join([*lines, *run])


def _checked_text(source: CudaSource) -> str:
    """The text of a program with checked arrays and parameters."""
    text = source.text.replace('extern "C" ', "")
    start = text.index("__global__")
    prelude, kernels = text[:start], text[start:]
    names = {match.group(5) for match in _DECLARED.finditer(kernels)}
    names |= {match.group(3) for match in _CARVED.finditer(kernels)}
    names |= {match.group(2) for match in _PARAMETER.finditer(kernels)}
    kernels = _PARAMETER.sub(r"checked::Global<\1> \2", kernels)
    kernels = _DECLARED.sub(_declaration, kernels)
    _, *bodies = kernels.split("__global__")
    for launch in source.launches:
        bodies = [
            _carved(body, launch.shared_bytes) if re.search(rf"\b{launch.symbol}\(", body) else body
            for body in bodies
        ]
    return prelude + _places("".join(f"__global__{body}" for body in bodies), names)


def _carved(kernel: str, given: int) -> str:
    """A kernel whose arrays end where the bytes end that its launch gives a block."""

    def array(match: re.Match[str]) -> str:
        indent, kind, name, size, start = match.groups()
        elements = f"checked::given<{kind}>({size}, {start}, {given})"
        bytes_ = math.gcd(int(start), _DYNAMIC_ALIGNMENT)
        return f'{indent}static checked::Shared<{kind}, {elements}, {bytes_}> {name}("{name}");'

    return _DYNAMIC.sub("", _CARVED.sub(array, kernel))


def _declaration(match: re.Match[str]) -> str:
    indent, shared, alignment, kind, name, size = match.groups()
    if not shared:
        return f'{indent}checked::Local<{kind}, {size}> {name}("{name}");'
    bytes_ = alignment or f"alignof({kind})"
    return f'{indent}static checked::Shared<{kind}, {size}, {bytes_}> {name}("{name}");'


def _places(text: str, names: set[str]) -> str:
    """Writes ``x[i] = v`` as ``x.at(i) = v``, and ``&x[i]`` as ``x.address(i)``."""
    if not names:
        return text
    parts: list[str] = []
    done = 0
    for match in re.finditer(rf"(?<![\w.])(&?)({'|'.join(sorted(names))})\[", text):
        end = _closing(text, match.end())
        written = re.match(r" = ", text[end + 1 :])
        if match.group(1) or written:
            method = "address" if match.group(1) else "at"
            inner = _places(text[match.end() : end], names)
            parts += [text[done : match.start()], f"{match.group(2)}.{method}({inner})"]
            done = end + 1
    return "".join(parts) + text[done:]


def _closing(text: str, start: int) -> int:
    """Where the bracket ends that opens before ``start``."""
    depth = 1
    for match in re.finditer(r"[\[\]]", text[start:]):
        depth += 1 if match.group() == "[" else -1
        if depth == 0:
            return start + match.start()
    raise CodegenError("brackets of the text do not match", "the emulated device")


def _buffers(source: CudaSource) -> dict[str, int]:
    """Bytes of the arguments and workspaces."""
    sizes = {a.name: math.prod(a.shape) * size_of(a.dtype) for a in source.arguments}
    return sizes | dict(source.workspaces)


def _layout(source: CudaSource) -> tuple[dict[str, tuple[int, int]], int]:
    """Where each buffer starts in the file, and its size; the size of the file."""
    places: dict[str, tuple[int, int]] = {}
    total = 0
    for name, size in _buffers(source).items():
        places[name] = (total, size)
        total += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, total
