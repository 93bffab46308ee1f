"""``wgmma``: products that four warps begin together, which read shared memory later."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.memory import MemoryFault, Region, Who
from tests.support.ptx.program import Instruction, PtxError
from tests.support.ptx.registers import Registers
from tests.support.ptx.tiles import GROUP, ROWS, addresses, elements, results
from tests.support.ptx.values import as_type, is_float, type_of
from tests.support.ptx.warp import DivergenceError

Mask = NDArray[np.bool_]
Bits = NDArray[Any]
_FORM: Final = re.compile(r"mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+)")
_NAME: Final = re.compile(r"%?[\w$]+")


@dataclass(slots=True, eq=False)
class _Product:
    """One instruction of one group of warps.

    ``issued``: lanes of the launch that have not waited for it; ``groups``: how many groups each
    lane has committed since, -1 while the product is in none.
    """

    names: tuple[str, ...]
    cells: NDArray[np.int64]
    issued: Mask
    groups: NDArray[np.int64]


class AsynchronousProducts:
    """The products of a launch that are under way; every thread waits for its own."""

    def __init__(
        self,
        registers: Registers,
        shared: Region,
        stride: int,
        subset: Callable[[NDArray[np.int64]], Who],
        threads: int,
    ) -> None:
        """``stride``: bytes of a block's shared memory; ``threads``: of a block."""
        self._registers = registers
        self._shared = shared
        self._stride = stride
        self._subset = subset
        self._threads = threads
        self._under_way: list[_Product] = []

    def execute(self, instruction: Instruction, mask: Mask) -> None:
        """Any ``wgmma``.

        Raises:
            MemoryFault: results that are not ordered, shared memory that others write.
            DivergenceError: not all threads of four warps take part.
            PtxError: another form of it.
        """
        match instruction.modifiers[0]:
            case "fence":
                self._registers.order(mask)
            case "commit_group":
                for product in self._under_way:
                    product.groups[mask] += product.issued[mask]
            case "wait_group":
                self._wait(mask, int(str(instruction.operands[0])))
            case _:
                self._begin(instruction, mask)

    def publish(self, instruction: Instruction, mask: Mask) -> None:
        """``fence.proxy.async``: what these threads have stored, products may read behind the next
        barrier.  Raises PtxError on other fences.
        """
        if instruction.modifiers[:2] != ("proxy", "async"):
            raise PtxError(f"no instruction {instruction.text!r} is known")
        self._shared.publish(self._subset(np.flatnonzero(mask)))

    def check(self, instruction: Instruction, mask: Mask) -> None:
        """Raises MemoryFault where an instruction touches results that are under way."""
        if not self._under_way or instruction.opcode == "wgmma":
            return
        used = set(_names(instruction))
        for product in self._under_way:
            touched = used.intersection(product.names)
            if touched and (product.issued & mask).any():
                lane = int(np.flatnonzero(product.issued & mask)[0])
                raise MemoryFault(
                    f"lane {lane} touches {min(touched)}, which a product under way computes: "
                    f"{instruction.text}"
                )

    def _begin(self, instruction: Instruction, mask: Mask) -> None:
        form = _FORM.fullmatch(".".join(instruction.modifiers))
        if form is None:
            raise PtxError(f"no instruction {instruction.text!r} is known")
        columns, terms, (total, first, second) = int(form[1]), int(form[2]), form.groups()[2:]
        names, *rest = instruction.operands
        descriptors, (adds, *scales) = rest[:2], rest[2:]
        if not isinstance(names, tuple) or len(names) != columns // 2:
            raise PtxError(f"{instruction.text!r} has other registers")
        size = type_of(first).itemsize
        wanted = ["1", "1"] * is_float(total) + ["0", "0"] * (size == 2)
        if [str(scale) for scale in scales] != wanted or terms * size != 32:
            raise PtxError(f"{instruction.text!r} is not modelled")
        groups = self._whole_groups(mask)
        self._check_order(names, mask)
        tiles = [
            self._tile(str(descriptor), groups, rows, kind)
            for descriptor, rows, kind in zip(
                descriptors, (ROWS, columns), (first, second), strict=True
            )
        ]
        (lhs, one), (rhs, other) = tiles
        row, column = results(columns)
        acc = self._results(names, groups, total, row, column, columns)
        acc = np.where(self._registers.value(str(adds), "pred")[groups[:, :1, None]], acc, 0)
        acc = acc + lhs @ np.swapaxes(rhs, 1, 2)
        if not is_float(total):
            acc = (acc + (1 << 31)) % (1 << 32) - (1 << 31)
        for number, name in enumerate(names):
            bits = np.zeros(len(mask), np.uint32)
            values = acc[:, row[number], column[number]].astype(type_of(total))
            bits[groups] = np.ascontiguousarray(values).view(np.uint32)
            self._registers.assign_result(name, bits, mask)
        for number, lanes in enumerate(groups):
            issued = np.zeros(len(mask), bool)
            issued[lanes] = True
            cells = np.concatenate([one[number].ravel(), other[number].ravel()])
            self._shared.busy[cells] += 1
            self._under_way.append(_Product(names, cells, issued, np.full(len(mask), -1, np.int64)))

    def _whole_groups(self, mask: Mask) -> NDArray[np.int64]:
        """The threads that take part, [groups, 128]."""
        if self._threads % GROUP:
            raise DivergenceError(f"a block of {self._threads} threads has no groups of four warps")
        groups = mask.reshape(-1, GROUP)
        if (groups.any(axis=1) != groups.all(axis=1)).any():
            raise DivergenceError("some threads of four warps do not take part in a product")
        return np.flatnonzero(mask).reshape(-1, GROUP)

    def _check_order(self, names: tuple[str, ...], mask: Mask) -> None:
        """Raise MemoryFault where results were touched since the last ``wgmma.fence``."""
        for name in names:
            late = mask & ~self._registers.ordered(name)
            if late.any():
                raise MemoryFault(
                    f"lane {int(np.flatnonzero(late)[0])} begins a product of {name}, which it has "
                    "changed since the last wgmma.fence"
                )

    def _tile(
        self, descriptor: str, groups: NDArray[np.int64], rows: int, kind: str
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Elements [groups, rows, terms] of an operand, and the cells that it is in."""
        given = as_type(self._registers.value(descriptor, "b64"), "u64")[groups]
        if (given != given[:, :1]).any():
            raise PtxError("threads of four warps have other matrix descriptors")
        first = self._subset(groups[:, 0])
        cells = np.stack([addresses(int(one), rows, 32) for one in given[:, 0]])
        cells = np.where(
            cells < self._stride, cells + first.block[:, None, None] * self._stride, -1
        )
        data = np.stack(
            [
                self._shared.read_by_unit(at, Who(*(np.repeat(part[n], rows) for part in
                                                    (first.lane, first.block, first.epoch))))
                for n, at in enumerate(cells)
            ]
        )  # fmt: skip
        return elements(data, kind), cells

    def _results(
        self,
        names: tuple[str, ...],
        groups: NDArray[np.int64],
        total: str,
        row: NDArray[np.int64],
        column: NDArray[np.int64],
        columns: int,
    ) -> NDArray[Any]:
        """What there is, [groups, 64, columns]."""
        kind: type = np.float64 if is_float(total) else np.int64
        acc = np.zeros((len(groups), ROWS, columns), kind)
        for number, name in enumerate(names):
            bits = self._registers.value(name, "b32")[groups]
            acc[:, row[number], column[number]] = as_type(bits, total)
        return acc

    def _wait(self, mask: Mask, left: int) -> None:
        kept = []
        for product in self._under_way:
            product.issued &= ~(mask & product.issued & (product.groups >= left))
            if product.issued.any():
                kept.append(product)
            else:
                self._shared.busy[product.cells] -= 1
        self._under_way = kept


def _names(instruction: Instruction) -> Iterator[str]:
    for operand in instruction.operands:
        for text in operand if isinstance(operand, tuple) else (operand,):
            yield from _NAME.findall(text)
