"""Loads and stores: addresses, guards, masks, gathers, and reuse of what is loaded already."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from codegen.llvm.addresses import Address, Guard, lane_constants
from codegen.llvm.features import ProcessorFeatures
from codegen.llvm.part_stores import StoredVector, lanes_of, parts_of, store_part
from codegen.llvm.prefetches import Prefetches
from codegen.llvm.scope import LoopScope
from codegen.llvm.shuffled_loads import shuffled_load
from codegen.llvm.strided_loads import reversed_lanes, strided_load
from codegen.llvm.values import (
    MEMORY_TYPES,
    SSA_TYPES,
    Form,
    SsaValue,
    mask_literal,
    suffix,
    vector_type,
)
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer

# Sizes of vectors that are one register.
_REGISTER_BITS: Final = (128, 256, 512)


class Memory:
    """Memory accesses of one function.

    ``zeros_bytes`` is the size that the block of zeros needs to have, which a guarded load reads
    where its guard does not hold.  ``zero_unless``: the conditions of such loads, by their names.
    """

    def __init__(self, writer: Writer, scope: LoopScope, features: ProcessorFeatures) -> None:
        self.writer = writer
        self.features = features
        self.scope = scope
        self.bases: dict[Buffer, str] = {}
        self.prefetches = Prefetches(self)
        self.zeros_bytes = 0
        self.zero_unless: dict[str, str] = {}
        self.loads: dict[Buffer, dict[Hashable, SsaValue]] = {}
        self.epoch = 0  # changes whenever loaded values are forgotten
        self.fixed: dict[Hashable, SsaValue] = {}  # of this block, whatever memory holds
        self._region: dict[Hashable, str] = {}
        self._dead: dict[str, frozenset[int]] = {}  # lanes in which a mask is known to be false

    def new_region(self) -> None:
        """A basic block begins: what was loaded elsewhere is forgotten."""
        self.loads.clear()
        self.epoch += 1
        self._region.clear()
        self.fixed.clear()

    def cached(self, key: Hashable, text: str) -> str:
        """``text`` computed once in the current basic block."""
        name = self._region.get(key)
        if name is None:
            name = self._region[key] = self.writer.emit_free(text)
        return name

    def both(self, first: str, second: str, width: int) -> str:
        """Two lane masks at once."""
        mask = self.cached(("and", first, second), f"and <{width} x i1> {first}, {second}")
        self._dead[mask] = self._dead_lanes(first) | self._dead_lanes(second)
        return mask

    def reversed_mask(self, mask: str, width: int) -> str:
        """The lanes of a mask, the last one first."""
        if (lanes := lanes_of(mask)) is not None:
            return mask_literal(tuple(reversed(lanes)))
        name = self.cached(("reversed", mask), reversed_lanes("i1", width, mask))
        self._dead[name] = frozenset(width - 1 - lane for lane in self._dead_lanes(mask))
        return name

    def _dead_lanes(self, mask: str) -> frozenset[int]:
        """Lanes in which ``mask``, a name or a literal, is known to be false."""
        if mask.startswith("%"):
            return self._dead.get(mask, frozenset())
        return frozenset(number for number, lane in enumerate(lanes_of(mask) or ()) if not lane)

    def splat(self, ref: str, kind: str, width: int) -> str:
        """All lanes equal to a scalar."""
        known = self._region.get(("splat", ref, width))
        if known is not None:
            return known
        vector = f"<{width} x {kind}>"
        first = self.cached(
            ("insert", ref, width), f"insertelement {vector} poison, {kind} {ref}, i64 0"
        )
        return self.cached(
            ("splat", ref, width),
            f"shufflevector {vector} {first}, {vector} poison, <{width} x i32> zeroinitializer",
        )

    def address(self, buffer: Buffer, form: Form, extra: SsaValue | None) -> Address:
        """The address of a flat element offset in bytes, plus a run-time ``extra`` in bytes."""
        base = self.scope.pointer(buffer, self.bases[buffer], form.dynamic)
        if extra is None:
            return Address(base, form.const, form.lane, None)
        if not extra.width:
            moved = self.writer.emit_free(f"getelementptr i8, ptr {base}, i64 {extra.ref}")
            return Address(moved, form.const, form.lane, None)
        offsets = extra.ref
        if form.lane:
            kind = vector_type("i64", extra.width)
            steps = lane_constants(form.lane, extra.width)
            offsets = self.writer.emit_free(f"add {kind} {offsets}, {steps}")
        return Address(base, form.const, form.lane, offsets)

    def pointer(self, address: Address) -> str:
        """The SSA name of an address, without its lanes."""
        if not address.const:
            return address.base
        key = ("at", address.base, address.const)
        known = self._region.get(key)
        text = f"getelementptr i8, ptr {address.base}, i64 {address.const}"
        return known or self.cached(key, text)

    def _safe_pointer(self, pointer: str, guard: Guard, need: int, masked: bool) -> str:
        """``pointer`` where the guard holds, else the block of zeros."""
        condition = guard.condition
        if guard.mask is not None and not masked and guard.mask.startswith("%"):
            some = self._any(guard.mask)
            condition = (
                some
                if condition is None
                else self.cached(("both", condition, some), f"and i1 {condition}, {some}")
            )
        if condition is None:
            return pointer
        self.zeros_bytes = max(self.zeros_bytes, need)
        return self.cached(
            ("safe", condition, pointer), f"select i1 {condition}, ptr {pointer}, ptr @zeros"
        )

    def _any(self, mask: str) -> str:
        width = self.scope.width
        bits = self.cached(("bits", mask), f"bitcast <{width} x i1> {mask} to i{width}")
        return self.cached(("any", mask), f"icmp ne i{width} {bits}, 0")

    def load(self, buffer: Buffer, form: Form, extra: SsaValue | None, guard: Guard) -> SsaValue:
        """Load an element, or one per lane where the address depends on the lane.

        Args:
            buffer: which memory.
            form: offset of the element, affine in the loops' variables.
            extra: part of the offset that is known at run time only; None: none.
            guard: condition of the access.
        """
        per_lane = bool(form.lane or form.pattern) or (extra is not None and extra.width > 0)
        width = self.scope.width if per_lane else 0
        key = (form, extra, guard.condition, guard.mask, width)  # loops differ in their lanes
        known = self.loads.setdefault(buffer, {})
        value = known.get(key)
        if value is None and form.pattern:
            value = known[key] = shuffled_load(self, buffer, form, extra, guard)
        elif value is None:
            address = self.address(buffer, form, extra)
            value = known[key] = self._loaded(buffer, width, address, guard)
            if width:
                self.prefetches.with_load(buffer, form, address)
        return value

    def load_at(self, buffer: Buffer, address: Address, guard: Guard) -> SsaValue:
        """The elements at the lanes of an address."""
        return self._loaded(buffer, self.scope.width, address, guard)

    def _loaded(self, buffer: Buffer, width: int, address: Address, guard: Guard) -> SsaValue:
        loaded = self._load(buffer.dtype, width, address, guard)
        return SsaValue(self._to_ssa(buffer.dtype, width, loaded), buffer.dtype, width)

    def begins(self, key: Hashable) -> bool:
        """Whether it is asked for the first time in the current basic block."""
        first = key not in self._region
        self._region.setdefault(key, "")
        return first

    def _load(self, dtype: str, width: int, address: Address, guard: Guard) -> str:
        size = size_of(dtype)
        kind = vector_type(MEMORY_TYPES[dtype], width)
        contiguous = address.offsets is None and address.lane == size
        pointer = self.pointer(address)
        if width and not contiguous:
            strided = strided_load(self, dtype, width, address, guard)
            return strided or self._gather(dtype, width, address, pointer, guard)
        masked = bool(width) and guard.mask is not None
        pointer = self._safe_pointer(pointer, guard, max(1, width) * size, masked)
        if not masked:
            text = f"load {kind}, ptr {pointer}, align {address.align or size}"
            ref = self.writer.emit(text)
            if guard.condition is not None and guard.mask is None:
                self.zero_unless[ref] = guard.condition
            return ref
        most = self.features.vector_bytes // size
        parts = width // most
        if parts < 2 or width % most or parts & (parts - 1):
            return self._masked_load(dtype, width, pointer, str(guard.mask))
        return self._split_load(dtype, width, pointer, str(guard.mask), most)

    def load_words(self, dtype: str, width: int, address: Address, guard: Guard) -> str:
        """What lies at an address, or for each lane of a vector, as elements of a type.

        Args:
            dtype: such as int32, for bytes as an integer.
            width: lanes; 0: a scalar.
            address: of the first byte.
            guard: condition of the access.
        """
        return self._load(dtype, width, address, guard)

    def _masked_load(self, dtype: str, width: int, pointer: str, mask: str) -> str:
        """A masked load whose mask LLVM cannot lose.

        LLVM 22 makes a masked load an operand of an instruction under the same mask, and may take
        it out again without the mask; it also forgets the mask where no lane of the result is
        used.  Both read what the mask protects from.  An empty piece of assembly hides the use.
        """
        kind, masks = vector_type(MEMORY_TYPES[dtype], width), vector_type("i1", width)
        name = f"llvm.masked.load.{suffix(MEMORY_TYPES[dtype], width)}.p0"
        self.writer.declare(name, f"{kind} {{}}(ptr, i32, {masks}, {kind})")
        loaded = self.writer.emit(
            f"call {kind} @{name}(ptr {pointer}, i32 {size_of(dtype)}, {masks} {mask}, "
            f"{kind} zeroinitializer)"
        )
        letter = self.features.masked_registers
        if not letter or 8 * width * size_of(dtype) not in _REGISTER_BITS:
            return loaded
        return self.writer.emit_free(f'call {kind} asm "", "={letter},0"({kind} {loaded})')

    def _split_load(self, dtype: str, width: int, pointer: str, mask: str, most: int) -> str:
        """A masked load of several registers, register by register.

        A part without a lane is left out: LLVM 22 loses the mask of some of them.
        """
        size, masks = size_of(dtype), vector_type("i1", width)
        dead, parts = self._dead_lanes(mask), []
        for first in range(0, width, most):
            if dead.issuperset(range(first, first + most)):
                parts.append("zeroinitializer")
                continue
            lanes = ", ".join(f"i32 {lane}" for lane in range(first, first + most))
            at = self.cached(
                ("part", pointer, first * size),
                f"getelementptr i8, ptr {pointer}, i64 {first * size}",
            )
            own = self.cached(
                ("part", mask, first, most),
                f"shufflevector {masks} {mask}, {masks} poison, <{most} x i32> <{lanes}>",
            )
            parts.append(self._masked_load(dtype, most, at, own))
        return self._joined(parts, MEMORY_TYPES[dtype], most)

    def _joined(self, parts: list[str], scalar: str, width: int) -> str:
        """The lanes of vectors of ``width`` one after another; a power of two of them."""
        while len(parts) > 1:
            kind = vector_type(scalar, width)
            lanes = ", ".join(f"i32 {lane}" for lane in range(2 * width))
            parts = [
                self.writer.emit_free(
                    f"shufflevector {kind} {low}, {kind} {high}, <{2 * width} x i32> <{lanes}>"
                )
                for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def _pointers(self, width: int, address: Address, pointer: str) -> str:
        offsets = address.offsets or lane_constants(address.lane, width)
        return self.writer.emit_free(
            f"getelementptr i8, ptr {pointer}, {vector_type('i64', width)} {offsets}"
        )

    def full_mask(self, guard: Guard, width: int) -> str:
        """The guard as one lane mask."""
        kind = vector_type("i1", width)
        if guard.condition is None:
            return guard.mask or "splat (i1 true)"
        uniform = guard.spread or self.splat(guard.condition, "i1", width)
        if guard.mask is None:
            return uniform
        return self.cached(("mask", uniform, guard.mask), f"and {kind} {uniform}, {guard.mask}")

    def _gather(self, dtype: str, width: int, address: Address, pointer: str, guard: Guard) -> str:
        scalar = MEMORY_TYPES[dtype]
        always = guard.condition is None and guard.mask is None and address.offsets is None
        if always and size_of(dtype) < size_of("int32"):  # processors gather no such elements
            return self._lane_by_lane(scalar, width, address, pointer)
        kind, mask = vector_type(scalar, width), vector_type("i1", width)
        pointers = self._pointers(width, address, pointer)
        name = f"llvm.masked.gather.{suffix(scalar, width)}.v{width}p0"
        self.writer.declare(name, f"{kind} {{}}(<{width} x ptr>, i32, {mask}, {kind})")
        return self.writer.emit(
            f"call {kind} @{name}(<{width} x ptr> {pointers}, i32 {size_of(dtype)}, "
            f"{mask} {self.full_mask(guard, width)}, {kind} zeroinitializer)"
        )

    def _lane_by_lane(self, scalar: str, width: int, address: Address, pointer: str) -> str:
        """What LLVM would take apart as well, with an address of its own for each lane."""
        vector = "poison"
        for lane in range(width):
            step = f"getelementptr i8, ptr {pointer}, i64 {address.lane * lane}"
            place = self.writer.emit_free(step) if lane else pointer
            element = self.writer.emit(f"load {scalar}, ptr {place}")
            text = f"insertelement <{width} x {scalar}> {vector}, {scalar} {element}, i64 {lane}"
            vector = self.writer.emit_free(text)
        return vector

    def store(
        self, buffer: Buffer, form: Form, extra: SsaValue | None, ref: str, guard: Guard
    ) -> None:
        """Store one value, one per lane in a vector loop; the guard's condition must hold.

        Args:
            buffer: which memory.
            form: offset of the element, affine in the loops' variables.
            extra: part of the offset that is known at run time only; None: none.
            ref: name of the SSA value.
            guard: condition of the access.
        """
        width, size = self.scope.width, size_of(buffer.dtype)
        address = self.address(buffer, form, extra)
        pointer = self.pointer(address)
        kind = vector_type(MEMORY_TYPES[buffer.dtype], width)
        ref = self._to_memory(buffer.dtype, width, ref)
        if width and (address.offsets is not None or address.lane != size):
            self._scatter(buffer.dtype, address, pointer, ref, guard)
        elif (lanes := lanes_of(guard.mask)) and (self.features.parts_stored or sum(lanes) == 1):
            stored = StoredVector(MEMORY_TYPES[buffer.dtype], size, width, ref, pointer)
            for first, length in parts_of(lanes, self.features.vector_bytes // size):
                store_part(self.writer, stored, first, length)
        elif guard.mask is not None:
            name = f"llvm.masked.store.{suffix(MEMORY_TYPES[buffer.dtype], width)}.p0"
            mask = vector_type("i1", width)
            self.writer.declare(name, f"void {{}}({kind}, ptr, i32, {mask})")
            self.writer.statement(
                f"call void @{name}({kind} {ref}, ptr {pointer}, i32 {size}, {mask} {guard.mask})"
            )
        else:
            self.writer.statement(f"store {kind} {ref}, ptr {pointer}, align {size}")
        if self.loads.pop(buffer, None) is not None:
            self.epoch += 1

    def _scatter(self, dtype: str, address: Address, pointer: str, ref: str, guard: Guard) -> None:
        width, scalar = self.scope.width, MEMORY_TYPES[dtype]
        kind, mask = vector_type(scalar, width), vector_type("i1", width)
        pointers = self._pointers(width, address, pointer)
        name = f"llvm.masked.scatter.{suffix(scalar, width)}.v{width}p0"
        self.writer.declare(name, f"void {{}}({kind}, <{width} x ptr>, i32, {mask})")
        self.writer.statement(
            f"call void @{name}({kind} {ref}, <{width} x ptr> {pointers}, i32 {size_of(dtype)}, "
            f"{mask} {guard.mask or 'splat (i1 true)'})"
        )

    def _to_ssa(self, dtype: str, width: int, ref: str) -> str:
        if dtype != "bool":
            return ref
        zero = "zeroinitializer" if width else "0"
        return self.writer.emit_free(f"icmp ne {vector_type('i8', width)} {ref}, {zero}")

    def _to_memory(self, dtype: str, width: int, ref: str) -> str:
        if dtype != "bool":
            return ref
        return self.writer.emit_free(
            f"zext {vector_type(SSA_TYPES[dtype], width)} {ref} to {vector_type('i8', width)}"
        )
