"""The targets whose code this machine can run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from campaign.verdict import Json
from codegen.host import cpu_target, host_target
from codegen.llvm.jit import check_host
from sketch.errors import TargetError
from sketch.target.target import Target

NAMES: Final = ("host", "cpu-avx512", "cpu-avx2", "cpu-sse2", "4 lanes", "8 lanes")


def target_of(case: Json) -> Target:
    """The target of a case; this machine where it cannot run code for that one."""
    name, threads = case["target"]
    return _target(name).with_threads(threads)


@cache
def _target(name: str) -> Target:
    host = host_target(1)
    if name == "host":
        return host
    if name == "4 lanes":
        return replace(host, vector_bytes=16, registers=16, fma_accumulators=4)
    if name == "8 lanes":
        return replace(host, vector_bytes=32, registers=16, fma_accumulators=6)
    target = cpu_target(name, 1)
    try:
        check_host(target)
    except TargetError:
        return host
    return target
