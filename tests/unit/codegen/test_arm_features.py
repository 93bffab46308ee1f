"""Features of Arm processors, from what Linux says of them."""

from __future__ import annotations

import pytest

from codegen import host
from codegen.arm_features import arm_features
from sketch.target.units import units_of

# The first lines of a Graviton 3, and of a processor with two kinds of cores.
ONE = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp cpuid asimddp sve svei8mm i8mm bf16
CPU implementer\t: 0x41
"""
OTHER = "processor\t: 1\nFeatures\t: fp asimd asimdhp asimddp\n"


def test_linux_and_llvm_have_other_names() -> None:
    names = ("neon", "fullfp16", "dotprod", "i8mm", "bf16")
    assert arm_features(ONE) == dict.fromkeys(names, True)


def test_all_cores_have_what_a_target_has() -> None:
    """Threads run on any of them."""
    assert set(arm_features(ONE + OTHER)) == {"neon", "fullfp16", "dotprod"}


def test_other_text_says_nothing() -> None:
    assert arm_features("") == arm_features("flags\t: fpu sse\n") == {}


def test_this_machine_has_its_units_where_it_is_one_of_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.llvm, "get_default_triple", lambda: "aarch64-unknown-linux-gnu")
    monkeypatch.setattr(host, "_cpuinfo", lambda: ONE)
    names = {unit.name for unit in units_of(host.host_target(1))}
    assert {"smmla.128", "bfmmla.128", "sdot.128"} <= names
