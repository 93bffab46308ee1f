"""Chains of an instruction: each is executed in every trip, and none is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.runtime.probes.chains import (
    CHAINS,
    ChainedInstruction,
    chains_text,
    load_chains,
    multiply_add,
    unit_product,
)
from codegen.host import cpu_target, host_target
from codegen.llvm.machine import emit_assembly
from sketch.target.units import UNITS

BYTES = next(unit for unit in UNITS if unit.name == "vpdpbusd.512")


@pytest.mark.parametrize(
    ("instruction", "mnemonic"),
    [(multiply_add(16), "vfmadd"), (unit_product(BYTES), "vpdpbusd")],
)
def test_machine_code_has_every_chain(instruction: ChainedInstruction, mnemonic: str) -> None:
    plain = cpu_target("cpu-avx512", 1)
    target = replace(plain, features=f"{plain.features},+avx512vnni")
    assembly = emit_assembly(chains_text(instruction), target)
    assert assembly.count(mnemonic) == CHAINS


def test_chains_run() -> None:
    _library, run = load_chains(multiply_add(host_target(1).lanes(4)), host_target(1))
    run(10)


def test_operations_of_one_execution() -> None:
    assert multiply_add(8).operations == 16
    assert unit_product(BYTES).operations == 2 * 16 * 4
