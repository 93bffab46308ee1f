"""Targets: which numbers make a machine."""

from __future__ import annotations

from typing import Any

import pytest

from codegen.host import cpu_target
from sketch.errors import TargetError
from sketch.target.code_limits import CodeLimits
from sketch.target.gpu_targets import ARCHS, CARDS, cuda_target, emulated
from sketch.target.rates import USUAL_RATES, Rates, nominal_rates
from sketch.target.target import MOST_THREADS, Target
from sketch.target.units import multiplied_halves
from tests.support.units import TILES, WIDE


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"kind": "tpu"}, "kind 'tpu'"),
        ({"arch": None}, "arch is None"),
        ({"arch": "two words"}, "arch is 'two words'"),
        ({"arch": "znver5\n"}, "arch is 'znver5"),
        ({"features": "avx2"}, "feature 'avx2' has no sign"),
        ({"features": "+sse3,avx2"}, "feature 'avx2' has no sign"),
        ({"threads": 0}, "threads is 0 .* 1 or more"),
        ({"threads": 2.0}, r"threads is 2\.0"),
        ({"threads": "2"}, "threads is '2'"),
        ({"threads": MOST_THREADS + 1}, f"threads is 4097 .* at most {MOST_THREADS}"),
        ({"registers": -1}, "registers is -1"),
        ({"l3_bytes": -1}, "l3_bytes is -1 .* 0 or more"),
        ({"l2_bytes": float("nan")}, "l2_bytes is nan"),
        ({"rates": 3.0}, r"rates is 3\.0 .*Rates"),
        ({"code": Rates()}, "code is .*CodeLimits"),
        ({"vector_bytes": 24}, "vector_bytes is 24 .* power of two"),
    ],
)
def test_numbers_of_no_machine_are_refused(changes: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"kind": "cpu", "arch": "generic"} | changes
    with pytest.raises(TargetError, match=message):
        Target(**values)
    if not {"rates", "code"} & changes.keys():
        with pytest.raises(TargetError, match=message):
            Target.from_json(values)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"rates": {"l2": 0.0}}, r"rates\.l2 is 0\.0 .*positive"),
        ({"rates": {"l2": float("inf")}}, r"rates\.l2 is inf"),
        ({"code": {"edge_copies": 1.5}}, r"code\.edge_copies is 1\.5"),
        ({"rates": {"l4": 1.0}}, "not a target"),
        ({"card": {"name": 3}}, r"card\.name is 3"),
        ({"card": {"emulated": 1}}, r"card\.emulated is 1"),
        ({"card": {"hertz": -1.0}}, r"card\.hertz is -1\.0"),
        ({"card": {"fma_lanes": 1.5}}, r"card\.fma_lanes is 1\.5"),
        ({"rates": [1.0]}, "not a target"),
    ],
)
def test_rates_of_no_machine_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target.from_json({"kind": "cpu", "arch": "generic"} | changes)


def test_only_unusual_rates_are_written() -> None:
    usual = Target("cpu", "generic")
    assert not {"rates", "code"} & (usual.to_json().keys() | usual.compact_json().keys())
    own = Target("cpu", "generic", rates=Rates(l3=0.5), code=CodeLimits(edge_unroll_trips=20))
    for written in (own.to_json(), own.compact_json()):
        assert written["rates"] == {"l3": 0.5} and written["code"] == {"edge_unroll_trips": 20}
        assert Target.from_json(written) == own


def test_unknown_and_missing_fields_are_refused() -> None:
    for values in ({"kind": "cpu"}, {"kind": "cpu", "arch": "generic", "cores": 4}):
        with pytest.raises(TargetError, match="not a target"):
            Target.from_json(values)


@pytest.mark.parametrize("name", [*ARCHS, *CARDS])
def test_every_gpu_is_whole_and_comes_back_from_a_record(name: str) -> None:
    target = cuda_target(name)
    assert Target.from_json(target.compact_json()) == target
    card = target.card
    assert target.shared_memory_bytes <= card.shared_block_bytes <= card.shared_processor_bytes
    assert min(card.hertz, card.fma_lanes, card.memory_bytes, card.memory_bytes_per_s) > 0
    assert card.threads_per_processor >= target.threads_per_block
    assert card.name == (name if name in CARDS else "")


@pytest.mark.parametrize("arch", ["sm_90", "sm_100", "sm_120"])
def test_the_letter_of_an_architecture_changes_nothing(arch: str) -> None:
    assert cuda_target(f"{arch}a") == cuda_target(arch)


def test_other_letters_are_unknown_architectures() -> None:
    for name in ("sm_86a", "sm_90b", "h200a"):
        with pytest.raises(TargetError, match="unknown GPU architecture or card"):
            cuda_target(name)


def test_an_emulated_card_is_never_called_like_the_card() -> None:
    card = cuda_target("h200")
    assert (card.label, emulated(card).label) == ("h200", "emulated h200")
    assert cuda_target("sm_90").label == "sm_90"


def test_caches_deliver_as_many_bytes_to_registers_of_any_length() -> None:
    rates = {size: nominal_rates(size) for size in (16, 32, 64)}
    assert rates[64] == USUAL_RATES
    for name in ("l2", "l3", "memory"):
        delivered = {size * getattr(each, name) for size, each in rates.items()}
        assert delivered == {64 * getattr(USUAL_RATES, name)}
    assert rates[16].loads == rates[32].loads < USUAL_RATES.loads
    assert cpu_target("cpu-avx2", 1).rates == rates[32]


def test_units_multiply_some_16_bit_floats() -> None:
    assert multiplied_halves(cpu_target("cpu-avx512", 1)) == ()
    assert multiplied_halves(WIDE) == ("bfloat16",)
    assert multiplied_halves(TILES) == ("float16", "bfloat16")
    assert multiplied_halves(cuda_target("sm_75")) == ("float16",)
