"""One part in a process of its own: what it finds is in the log at once, however it ends."""

from __future__ import annotations

import argparse
import os
import signal
import time
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Final

from benchmarks.gpu_parts.bench import Bench, PartRun
from benchmarks.gpu_parts.row_log import RowLog
from codegen.named_targets import named_target
from sketch.target.target import Target

_PAUSE_S: Final = 0.5


def run_part(part: str, target: Target, folder: Path, seconds: float) -> None:
    """Run one part; its rows are appended to the log of the folder."""
    log = RowLog(folder, device_name(target))
    known = log.of(part)
    run: PartRun = import_module(f"benchmarks.gpu_parts.{part}").run
    for row in run(Bench(part, target, folder, time.monotonic() + seconds, known)):
        log.append(part, row)


def device_name(target: Target) -> str:
    """Rows of one device do not count for another."""
    return f"{'emulated ' if target.card.emulated else ''}{target.card.name or target.arch}"


def target_of(device: str) -> Target:
    """The GPU of this machine, or the emulated one.

    Raises:
        TargetError: there is no GPU; the message says what is missing.
    """
    return (
        named_target("cuda:h200", device="emulated")
        if device == "emulated"
        else named_target("cuda")
    )


def main() -> None:
    """As ``gpu_parts.run`` starts it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part")
    parser.add_argument("--device", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--parent", type=int, required=True)
    arguments = parser.parse_args()
    Thread(target=_end_with, args=(arguments.parent,), daemon=True).start()
    run_part(arguments.part, target_of(arguments.device), arguments.folder, arguments.seconds)


def _end_with(parent: int) -> None:
    """End this process and all that it started when its parent is gone, killed perhaps: the next
    run is not to meet them on the device.
    """
    while os.getppid() == parent:
        time.sleep(_PAUSE_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
