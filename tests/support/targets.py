"""Targets that tests pin, so that they do not depend on the machine they run on."""

from sketch.target.target import Target

AVX512 = Target(
    "cpu", "skylake-avx512", "+avx512f", threads=2, vector_bytes=64, registers=32,
    l1_bytes=32 * 1024, l2_bytes=1024 * 1024,
)  # fmt: skip
# Invented: 4 lanes and 16 registers make tiles small, so that small shapes have tails everywhere.
SMALL = Target("cpu", "invented", threads=2, vector_bytes=16, registers=16, fma_accumulators=4)
# Invented: a width and a register count that no real machine combines.
ODD = Target("cpu", "invented", threads=3, vector_bytes=32, registers=16, fma_accumulators=6)
