"""The rates of this machine as they were measured: one small file in the user's cache.

``autosched calibrate`` writes it; targets of this machine take their rates from it.  What belongs
to another machine, or is damaged, counts as no calibration.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from codegen.file_cache import user_folder
from sketch.errors import TargetError
from sketch.target.rates import USUAL_RATES, Rates
from sketch.target.target import Target

MEASURED: Final = (
    "hertz", "loads", "l2", "l3", "memory", "float_math", "float_div", "region",
)  # fmt: skip
"""The fields of ``Rates`` that a calibration sets."""

_CPU_INFO: Final = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration found.

    Attributes:
        machine: ``machine_of`` the target that it was measured on.
        threads: that measured together.
        rates: of ``MEASURED``, in the units of ``Rates``.
        spread: of each rate, how far its best three rounds differ, relative to the best.
        conditions: what else the machine did, for people.
        disturbed: whether it was kept though the machine was busy.
    """

    machine: str
    threads: int
    rates: Mapping[str, float]
    spread: Mapping[str, float]
    conditions: str = ""
    disturbed: bool = False

    def applied(self, rates: Rates = USUAL_RATES) -> Rates:
        """The rates with those that were measured."""
        return replace(rates, **self.rates)

    def to_text(self) -> str:
        """The file: a checksum of what follows, and JSON."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        body = json.dumps(data, indent=1, sort_keys=True)
        return f"{_checksum(body)}\n{body}"

    @staticmethod
    def from_text(text: str) -> Calibration:
        """The inverse of ``to_text``; raises ValueError where that did not write it."""
        mark, _, body = text.partition("\n")
        if mark != _checksum(body):
            raise ValueError("the checksum does not fit")
        data = json.loads(body)
        if set(data) != set(Calibration.__dataclass_fields__) or set(data["rates"]) != {*MEASURED}:
            raise ValueError("it has other fields")
        found = Calibration(**data)
        Target("cpu", "", rates=found.applied())  # raises TargetError
        return found


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def calibration_file() -> Path:
    """Where the calibration of this user is; raises RuntimeError where there is no home."""
    return user_folder("calibration") / "rates.json"


def machine_of(target: Target) -> str:
    """This machine, as one line: rates of another one are of no use.

    Times depend on the make of the processor and on the size of the (virtual) machine, not on the
    number of threads that a target uses.
    """
    caches = ", ".join(f"{size >> 10} kB" for size in _caches(target))
    return f"{_model_name()}, {target.arch}, {os.cpu_count()} CPUs, caches {caches}"


def _caches(target: Target) -> tuple[int, ...]:
    return (target.l1_bytes, target.l2_bytes, target.l3_bytes)


@cache
def _model_name() -> str:
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")


def known_calibration(target: Target) -> Calibration | None:
    """The calibration of this machine, whose target is given; None where there is none."""
    try:
        found = Calibration.from_text(calibration_file().read_text(encoding="utf-8"))
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, TargetError):
        return None
    return found if found.machine == machine_of(target) else None


def calibrated(target: Target) -> Target:
    """A target of this machine with the rates that were measured, if they were."""
    found = known_calibration(target)
    return target if found is None else replace(target, rates=found.applied(target.rates))
