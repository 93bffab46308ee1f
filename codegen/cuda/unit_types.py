"""What tensor units and their element types are called in CUDA C++ and in PTX."""

from __future__ import annotations

from typing import Final

from sketch.target.units import TensorUnit

OPERANDS: Final = {
    "float32": ("tf32", "emulator::Single"),
    "float16": ("f16", "emulator::Half"),
    "bfloat16": ("bf16", "emulator::Brain"),
    "int8": ("s8", "signed char"),
    "uint8": ("u8", "unsigned char"),
}
"""Of an element type: in PTX, and in the emulator."""
RESULTS: Final = {"float32": ("f32", "float", "f"), "int32": ("s32", "int", "r")}
"""Of a type of results: in PTX, in C++, and the letter of a register."""


def unit_function(unit: TensorUnit) -> str:
    """The name of the function that computes a unit."""
    return unit.name.replace(".", "_")
