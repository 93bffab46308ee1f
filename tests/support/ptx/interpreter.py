"""Runs a kernel: all threads of all blocks at once, those with the lowest program counter first.

Threads of a warp need not run in step on a GPU; here those that stand at the same instruction do.
Where that could hide a race, memory reports it: it keeps who read and wrote what since which
barrier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.arithmetic import compute
from tests.support.ptx.copies import AsynchronousCopies
from tests.support.ptx.memory import MemoryFault, Region, Who
from tests.support.ptx.products import AsynchronousProducts
from tests.support.ptx.program import Instruction, PtxError, PtxKernel, Variable
from tests.support.ptx.registers import WARP, Registers, special_registers
from tests.support.ptx.units import matrices, multiplied, whole_warps
from tests.support.ptx.values import as_type, extended, is_type, type_of
from tests.support.ptx.warp import DivergenceError, ballot, shuffled

Mask = NDArray[np.bool_]
Bits = NDArray[Any]

_GLOBAL: Final = 1 << 33
_APART: Final = 1 << 32  # bytes between two buffers: no offset of a kernel leads into another
_SHARED: Final = 1 << 60
_LOCAL: Final = 1 << 61
_RED_ZONE: Final = 1024  # bytes behind every variable
_MOST_INSTRUCTIONS: Final = 20_000_000
_ADDRESS: Final = re.compile(r"^\[?\s*([%\w$]+|-?\d+)\s*(?:\+\s*(-?\d+))?\s*\]?$")
_COPIES: Final = {"ca", "cg"}


def run_kernel(
    kernel: PtxKernel, grid: int, block: int, arguments: Sequence[Region], dynamic_bytes: int = 0
) -> int:
    """Run one launch; returns how many instructions were executed, each for all its threads.

    ``arguments``: one region a parameter, their ``start`` is overwritten.

    Raises:
        MemoryFault, DivergenceError: the kernel does what a GPU does not allow.
        PtxError: an instruction that is not known.
    """
    return _Machine(kernel, grid, block, arguments, dynamic_bytes).run()


class _Machine:
    """The state of a launch; lane = block * threads of a block + thread."""

    def __init__(
        self,
        kernel: PtxKernel,
        grid: int,
        block: int,
        arguments: Sequence[Region],
        dynamic_bytes: int,
    ) -> None:
        if len(arguments) != len(kernel.parameters):
            raise PtxError(f"{kernel.name} takes {len(kernel.parameters)} arguments")
        self._kernel = kernel
        self._count = grid * block
        self._threads = block
        lanes = np.arange(self._count)
        self._who = Who(lanes, lanes // block, np.zeros(self._count, np.int64))
        self._epochs = np.zeros(grid, np.int64)
        self._counter = np.zeros(self._count, np.int64)
        self._waiting = np.zeros(self._count, bool)
        self._parameters: dict[str, int] = {}
        self._regions: list[Region] = []
        for name, region in zip(kernel.parameters, arguments, strict=True):
            if region not in self._regions:
                region.start = _GLOBAL + len(self._regions) * _APART
                region.forget()
                self._regions.append(region)
            self._parameters[name] = region.start
        self._symbols: dict[str, int] = {}
        self._module_memory(kernel.variables)
        self._strides: dict[str, int] = {}  # bytes between the copies of two blocks or threads
        self._shared = self._private("shared", _SHARED, grid, dynamic_bytes)
        self._copies = AsynchronousCopies(self._count, self._shared)
        self._local = self._private("local", _LOCAL, self._count, 0)
        special = special_registers(lanes, grid, block)
        self._registers = Registers(kernel.registers, self._count, special, self._symbols)
        self._products = AsynchronousProducts(
            self._registers, self._shared, self._strides["shared"], self._subset, block
        )
        self._handlers: Mapping[str, Callable[[Instruction, Mask], None]] = {
            "bra": self._branch, "ret": self._return, "exit": self._return, "trap": self._trap,
            "bar": self._arrive, "barrier": self._arrive, "ld": self._load, "st": self._store,
            "cp": self._copy, "cvta": self._cast_address, "shfl": self._collective,
            "vote": self._collective, "activemask": self._collective,
            "ldmatrix": self._load_matrices, "mma": self._multiply,
            "wgmma": self._products.execute, "fence": self._products.publish,
        }  # fmt: skip

    def run(self) -> int:
        """Until every thread has returned."""
        end = len(self._kernel.instructions)
        for executed in range(_MOST_INSTRUCTIONS):
            ready = ~self._waiting & (self._counter < end)
            if not ready.any():
                if self._waiting.any():
                    self._diverged()
                return executed
            at = int(self._counter[ready].min())
            self._step(self._kernel.instructions[at], at, ready & (self._counter == at))
        raise PtxError(f"{self._kernel.name} does not end")

    def _step(self, instruction: Instruction, at: int, active: Mask) -> None:
        self._counter[active] = at + 1
        mask = active
        if instruction.guard is not None:
            mask = active & (
                self._registers.value(instruction.guard, "pred") != instruction.negated
            )
            if not mask.any():
                return
        self._products.check(instruction, mask)
        self._handlers.get(instruction.opcode, self._compute)(instruction, mask)

    def _branch(self, instruction: Instruction, mask: Mask) -> None:
        label = instruction.operands[0]
        assert isinstance(label, str)
        self._counter[mask] = self._kernel.labels[label]

    def _return(self, instruction: Instruction, mask: Mask) -> None:
        self._counter[mask] = len(self._kernel.instructions)

    def _trap(self, instruction: Instruction, mask: Mask) -> None:
        raise PtxError(f"{self._kernel.name} traps")

    # Registers.

    def _compute(self, instruction: Instruction, mask: Mask) -> None:
        destination, *sources = instruction.operands
        kinds = [name for name in instruction.modifiers if is_type(name)]
        kind = kinds[-1] if kinds else "b32"
        if instruction.opcode == "mov" and (
            isinstance(destination, tuple) or isinstance(sources[0], tuple)
        ):
            self._registers.pack(destination, sources[0], kind, mask)
            return
        values = []
        for number, source in enumerate(sources):
            assert isinstance(source, str)
            wanted = self._operand_type(instruction, number, kind)
            value = self._registers.value(source.lstrip("!"), wanted)
            values.append(~value if source.startswith("!") else value)
        result = compute(instruction.opcode, instruction.modifiers, tuple(values))
        assert isinstance(destination, str)
        self._registers.assign(destination.split("|")[0], result, mask)

    @staticmethod
    def _operand_type(instruction: Instruction, number: int, kind: str) -> str:
        """The type by which an immediate operand is read."""
        opcode = instruction.opcode
        if (opcode == "selp" or opcode == "setp") and number == 2:
            return "pred"
        if opcode in ("shl", "shr") and number == 1:
            return "u32"
        if number == 2 and opcode == "mad" and "wide" in instruction.modifiers:
            return kind[0] + {"16": "32", "32": "64"}[kind[1:]]
        return kind

    # Memory.

    def _module_memory(self, variables: Sequence[Variable]) -> None:
        for variable in variables:
            if variable.space in ("global", "const"):
                start = _GLOBAL + len(self._regions) * _APART
                values = np.frombuffer(variable.values.ljust(variable.size, b"\0"), np.uint8)
                self._regions.append(Region.of(variable.name, start, values.copy(), False, True))
                self._symbols[variable.name] = start

    def _private(self, space: str, base: int, owners: int, dynamic_bytes: int) -> Region:
        """Variables of every block or thread, one copy after another, with red zones between."""
        spans, offset = [], 0
        for variable in self._kernel.variables:
            if variable.space == space:
                offset = -(-offset // variable.alignment) * variable.alignment
                size = variable.size or dynamic_bytes
                spans.append((offset, size))
                self._symbols[variable.name] = offset
                offset += size + max(_RED_ZONE, size)
        stride = -(-offset // 256) * 256
        inside = np.zeros(stride, bool)
        for start, size in spans:
            inside[start : start + size] = True
        self._strides[space] = stride
        data = np.full(owners * stride, 0xFF, np.uint8)
        known = np.zeros(len(data), bool)
        return Region(f"{space} memory", base, data, True, known, np.tile(inside, owners))

    def _load(self, instruction: Instruction, mask: Mask) -> None:
        destination, source = instruction.operands
        kind = instruction.modifiers[-1]
        assert isinstance(source, str)
        if "param" in instruction.modifiers:
            assert isinstance(destination, str)
            address = self._parameters[source.strip("[] ")]
            self._registers.assign(destination, np.full(self._count, address, np.uint64), mask)
            return
        names = destination if isinstance(destination, tuple) else (destination,)
        width = type_of(kind).itemsize
        lanes = np.flatnonzero(mask)
        values = np.zeros((self._count, width * len(names)), np.uint8)
        space, addresses = self._space(instruction, source, lanes)
        values[lanes] = self._access(space, addresses, width * len(names), lanes)
        for number, name in enumerate(names):
            part = np.ascontiguousarray(values[:, number * width : (number + 1) * width])
            self._registers.assign(name, extended(part.view(type_of(kind)).reshape(-1), kind), mask)

    def _store(self, instruction: Instruction, mask: Mask) -> None:
        target, source = instruction.operands
        kind = instruction.modifiers[-1]
        assert isinstance(target, str)
        names = source if isinstance(source, tuple) else (source,)
        lanes = np.flatnonzero(mask)
        parts = [
            np.ascontiguousarray(as_type(self._registers.value(name, kind), kind)[lanes])
            .view(np.uint8)
            .reshape(len(lanes), -1)
            for name in names
        ]
        values = np.concatenate(parts, axis=1)
        space, addresses = self._space(instruction, target, lanes)
        self._access(space, addresses, values.shape[1], lanes, values)

    def _space(
        self, instruction: Instruction, operand: str, lanes: NDArray[np.int64]
    ) -> tuple[str, NDArray[np.int64]]:
        """The state space of an access, and the addresses of the lanes in it."""
        match = _ADDRESS.match(operand.strip())
        if match is None:
            raise PtxError(f"no address: {operand!r} in {instruction.text!r}")
        base = self._registers.value(match.group(1), "u64")[lanes].astype(np.int64)
        addresses = base + int(match.group(2) or 0)
        space = next((s for s in instruction.modifiers if s in ("shared", "local", "global")), "")
        if not space:  # a generic address
            space = "local" if (addresses >= _LOCAL).all() else "global"
            space = "shared" if ((addresses >= _SHARED) & (addresses < _LOCAL)).all() else space
            addresses = addresses - {"local": _LOCAL, "shared": _SHARED, "global": 0}[space]
        return space, addresses

    def _access(
        self,
        space: str,
        addresses: NDArray[np.int64],
        size: int,
        lanes: NDArray[np.int64],
        values: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.uint8]:
        """Read, or write ``values``, ``[lanes, size]`` bytes."""
        if (misaligned := addresses % size != 0).any():
            lane = lanes[np.argmax(misaligned)]
            raise MemoryFault(f"misaligned access of {size} bytes, lane {lane}")
        result = np.zeros((len(lanes), size), np.uint8)
        for region, chosen, offsets in self._parts(space, addresses, lanes):
            at = offsets[:, None] + np.arange(size)
            who = self._subset(lanes[chosen])
            if values is None:
                result[chosen] = region.read(at, who)
            else:
                region.write(at, values[chosen], who)
        return result

    def _parts(
        self, space: str, addresses: NDArray[np.int64], lanes: NDArray[np.int64]
    ) -> list[tuple[Region, NDArray[np.int64], NDArray[np.int64]]]:
        """The regions of an access: which of its lanes, at which offsets."""
        everyone = np.arange(len(lanes))
        if space in ("shared", "local"):
            region = self._shared if space == "shared" else self._local
            stride = self._strides[space]
            owner = self._who.block[lanes] if space == "shared" else lanes
            inside = (addresses >= 0) & (addresses < stride)
            return [(region, everyone, np.where(inside, owner * stride + addresses, -1))]
        numbers = np.clip((addresses - _GLOBAL + _APART // 2) // _APART, 0, len(self._regions) - 1)
        if len(numbers) and (numbers == numbers[0]).all():
            region = self._regions[int(numbers[0])]
            return [(region, everyone, addresses - region.start)]
        found = []
        for number in np.unique(numbers):
            chosen = np.flatnonzero(numbers == number)
            region = self._regions[int(number)]
            found.append((region, chosen, addresses[chosen] - region.start))
        return found

    def _subset(self, lanes: NDArray[np.int64]) -> Who:
        blocks = self._who.block[lanes]
        return Who(lanes, blocks, self._epochs[blocks])

    def _cast_address(self, instruction: Instruction, mask: Mask) -> None:
        destination, source = instruction.operands
        assert isinstance(destination, str) and isinstance(source, str)
        value = self._registers.value(source, "u64").astype(np.uint64)
        space = next((s for s in instruction.modifiers if s in ("shared", "local")), None)
        window = np.uint64({"shared": _SHARED, "local": _LOCAL, None: 0}[space])
        value = value - window if "to" in instruction.modifiers else value + window
        self._registers.assign(destination, value, mask)

    def _copy(self, instruction: Instruction, mask: Mask) -> None:
        """``cp.async`` and what waits for it."""
        modifiers = instruction.modifiers
        lanes = np.flatnonzero(mask)
        if "commit_group" in modifiers:
            self._copies.commit(lanes)
            return
        if "wait_group" in modifiers or "wait_all" in modifiers:
            left = int(str(instruction.operands[0])) if "wait_group" in modifiers else -1
            self._copies.wait(self._subset(lanes), left)
            return
        if not _COPIES & set(modifiers):
            raise PtxError(f"no instruction {instruction.text!r} is known")
        target, source, size, *rest = (str(operand) for operand in instruction.operands)
        kept = as_type(self._registers.value(rest[0], "u32"), "u32")[lanes] if rest else None
        width = int(size)
        values = np.zeros((len(lanes), width), np.uint8)
        _, addresses = self._space(_in_space(instruction, "global"), source, lanes)
        reading = np.arange(len(lanes)) if kept is None else np.flatnonzero(kept > 0)
        if kept is not None and not ((kept == 0) | (kept == width)).all():
            raise PtxError("an asynchronous copy of a part is not modelled")
        values[reading] = self._access("global", addresses[reading], width, lanes[reading])
        _, offsets = self._space(_in_space(instruction, "shared"), target, lanes)
        if (offsets % width != 0).any():
            raise MemoryFault(f"misaligned asynchronous copy of {width} bytes")
        ((region, _, at),) = self._parts("shared", offsets, lanes)
        cells = at[:, None] + np.arange(width)
        assert region is self._shared
        self._copies.begin(self._subset(lanes), cells, values)

    # Threads together.

    def _arrive(self, instruction: Instruction, mask: Mask) -> None:
        if instruction.opcode == "bar" and "warp" in instruction.modifiers:
            return
        self._waiting |= mask
        waiting = self._waiting.reshape(-1, self._threads).sum(axis=1)
        complete = waiting == self._threads
        self._epochs[complete] += 1
        self._waiting &= ~np.repeat(complete, self._threads)

    def _diverged(self) -> None:
        lane = int(np.flatnonzero(self._waiting)[0])
        block = lane // self._threads
        count = int(self._waiting.reshape(-1, self._threads)[block].sum())
        raise DivergenceError(
            f"{self._kernel.name}: {count} of {self._threads} threads of block {block} wait at a "
            "barrier"
        )

    def _collective(self, instruction: Instruction, mask: Mask) -> None:
        destination, *sources = (str(operand) for operand in instruction.operands)
        values = [self._registers.value(source, "b32") for source in sources]
        if instruction.opcode == "shfl":
            value, valid = shuffled(instruction.modifiers, values, mask, self._threads)
        else:
            value, valid = ballot(instruction.modifiers, values, mask, self._threads), mask
        name, _, predicate = destination.partition("|")
        self._registers.assign(name, value, mask)
        if predicate:
            self._registers.assign(predicate, valid, mask)

    def _load_matrices(self, instruction: Instruction, mask: Mask) -> None:
        names, source = instruction.operands
        names = names if isinstance(names, tuple) else (names,)
        warps = whole_warps(mask, self._threads)
        lanes = warps[:, : 8 * len(names)].reshape(-1)
        space, addresses = self._space(instruction, str(source), lanes)
        rows = np.zeros((len(warps), WARP, 16), np.uint8)
        read = self._access(space, addresses, 16, lanes)
        rows[:, : 8 * len(names)] = read.reshape(len(warps), -1, 16)
        found = matrices(rows, len(names), "trans" in instruction.modifiers)
        self._assign_warps(names, found, warps, mask)

    def _multiply(self, instruction: Instruction, mask: Mask) -> None:
        warps = whole_warps(mask, self._threads)
        names, *operands = (x if isinstance(x, tuple) else (x,) for x in instruction.operands)
        words = [[self._registers.value(n, "b32")[warps] for n in part] for part in operands]
        found = multiplied(instruction.modifiers, words)
        self._assign_warps(names, found, warps, mask)

    def _assign_warps(
        self, names: tuple[str, ...], found: list[Bits], warps: NDArray[np.int64], mask: Mask
    ) -> None:
        every = np.zeros(self._count, np.uint32)
        for name, every[warps] in zip(names, found, strict=True):
            self._registers.assign(name, every.copy(), mask)


def _in_space(instruction: Instruction, space: str) -> Instruction:
    return Instruction(None, False, "cp", (space,), (), instruction.text)
