"""Names of targets among the machines of a fleet, and who serves them."""

from dataclasses import replace

import pytest

from autosched.fleet.errors import FleetError
from autosched.fleet.machine import FleetMachine, fleet_target, serving, this_machine
from autosched.fleet.versions import check_versions
from codegen.named_targets import named_target
from sketch.errors import TargetError
from sketch.target.target import Target

LAKE = Target("cpu", "cascadelake", "+avx2,+avx512f", threads=4, vector_bytes=64, registers=32)
ZEN = Target("cpu", "znver4", "+avx2,+avx512f", threads=8, vector_bytes=64, registers=32)
HOPPER = named_target("cuda:h200")


def machines(*targets, builds_only=False):
    return [
        FleetMachine(f"{n}abcdef", "host", target, 2, None, builds_only, int(target is HOPPER))
        for n, target in enumerate(targets)
    ]


def test_a_label_names_a_kind_of_machine():
    fleet = machines(LAKE, LAKE, ZEN, HOPPER)
    assert [machine.label for machine in fleet[1:]] == [
        "cpu:cascadelake",
        "cpu:znver4",
        "cuda:sm_90",
    ]
    assert fleet_target(fleet, "cpu:cascadelake") == LAKE
    assert fleet_target(fleet, "cpu:znver4", threads=2) == ZEN.with_threads(2)
    assert fleet_target(fleet, "cuda") == HOPPER
    assert serving(fleet, LAKE) == fleet[:2]
    assert serving(fleet, ZEN.with_threads(2)) == fleet[2:3]
    assert serving(fleet, HOPPER) == fleet[3:]


def test_cpu_alone_is_enough_where_all_are_alike():
    assert fleet_target(machines(LAKE, LAKE)) == LAKE
    with pytest.raises(
        FleetError, match=r"several kinds of cpu.*cpu:cascadelake \(1\), cpu:znver4"
    ):
        fleet_target(machines(LAKE, ZEN))


def test_threads_must_be_said_where_machines_differ_in_them():
    fleet = machines(LAKE, replace(LAKE, threads=16))
    with pytest.raises(FleetError, match="1 with 4, 1 with 16"):
        fleet_target(fleet, "cpu:cascadelake")
    assert serving(fleet, fleet_target(fleet, "cpu", threads=4)) == fleet
    assert serving(fleet, LAKE.with_threads(8)) == fleet[1:]
    assert serving(fleet, LAKE.with_threads(32)) == []


def test_caches_of_virtual_machines_make_no_other_kind():
    fleet = machines(LAKE, replace(LAKE, l3_bytes=1 << 20))
    assert serving(fleet, LAKE) == fleet


def test_other_names_are_for_the_most_common_machines():
    fleet = machines(LAKE, ZEN, ZEN, HOPPER)
    portable = fleet_target(fleet, "cpu-avx2", threads=1)
    assert portable == named_target("cpu-avx2", 1)
    assert serving(fleet, portable) == fleet[1:3]
    emulated = fleet_target(fleet, "cuda:h200", device="emulated")
    assert emulated.card.emulated and serving(fleet, emulated) == fleet[1:3]


def test_machines_that_only_build_time_nothing():
    fleet = machines(LAKE, builds_only=True)
    assert serving(fleet, LAKE) == []
    with pytest.raises(FleetError, match=r"no machine for the target cpu \| its targets: none"):
        fleet_target(fleet)


def test_names_that_nobody_knows():
    with pytest.raises(FleetError, match="no machine of the fleet is a cpu:rocketlake"):
        fleet_target(machines(LAKE), "cpu:rocketlake")
    with pytest.raises(TargetError, match="unknown target"):
        fleet_target(machines(LAKE), "gpu")


def test_this_machine_uses_what_ray_may_use():
    here = this_machine("0123456789", cpus=1, gpus=0.0, builds_only=False)
    assert here.target.threads == 1 and here.name.endswith("/012345")
    assert here.load is not None and here.label.startswith("cpu:")


def test_software_must_be_the_same():
    ours = {"autosched": "1.0", "python": "3.12.1", "numpy": "2.4", "llvmlite": "0.50", "code": "a"}
    check_versions("x", {**ours, "lightgbm": "1"}, ours)
    with pytest.raises(
        FleetError, match=r"machine x has autosched 0\.9, not 1\.0; code missing, not a"
    ):
        check_versions(
            "x", {**{k: v for k, v in ours.items() if k != "code"}, "autosched": "0.9"}, ours
        )
