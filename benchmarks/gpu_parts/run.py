"""The run: parts one after another, each with its share of the time, and the file of results."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu_parts.child import device_name, target_of
from benchmarks.gpu_parts.limited import run_limited
from benchmarks.gpu_parts.row_log import Row, RowLog
from benchmarks.rows import write_json

ROOT: Final = Path(__file__).parents[2]
PARTS: Final[Mapping[str, float]] = {
    "facts": 0.3,
    "suite": 4.0,
    "candidates": 3.0,
    "bandwidth": 3.0,
    "products": 4.0,
    "units": 3.0,
    "layers": 4.0,
    "networks": 8.0,
    "agreement": 1.0,
    "nvrtc": 0.5,
}
"""Parts in order of value, with the weights of their shares of the time."""

_RUN: Final = "run"
# A part that does not end by itself is ended so long after its time.
_GRACE_S: Final = 15.0
_LAST_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """A run, as the command line gives it.

    Attributes:
        device: "gpu" or "emulated".
        minutes: of the whole run.
        folder: of the logs that later runs go on from.
        parts: names, in order.
        json: file of results; None: none is written.
        site: folder with packages that this machine lacks; None: it has all.
    """

    device: str
    minutes: float
    folder: Path
    parts: Sequence[str]
    json: str | None
    site: Path | None = None


def run(settings: Settings) -> list[Row]:
    """Run all parts that no earlier run has finished; the rows of all runs.

    Raises:
        TargetError: there is no GPU; the message says what is missing.
    """
    stop = time.monotonic() + 60 * settings.minutes
    log = RowLog(settings.folder, device_name(target_of(settings.device)))
    waiting = [part for part in settings.parts if not finished(log.of(part))]
    for place, part in enumerate(waiting):
        weights = [PARTS[other] for other in waiting[place:]]
        seconds = (stop - time.monotonic()) * weights[0] / sum(weights)
        if seconds > 0:
            log.append(part, _run_part(settings, part, seconds))
        _write(settings, log)
    _write(settings, log)
    return results(log)


def finished(rows: Mapping[str, Row]) -> bool:
    """Whether a part came to its end, with all its rows done."""
    ended = rows.get(_RUN, {}).get("exit") == 0
    return ended and all(row.get("done", True) for row in rows.values())


def results(log: RowLog) -> list[Row]:
    """The rows of all parts, without those about the runs themselves that went well."""
    return [row for row in log.rows() if row["name"] != _RUN or row["exit"] != 0]


def _run_part(settings: Settings, part: str, seconds: float) -> Row:
    """How a part's process ended; nothing that it started is left."""
    words = [
        sys.executable, "-m", "benchmarks.gpu_parts.child", part, "--device", settings.device,
        "--folder", str(settings.folder), "--seconds", str(seconds),
        "--parent", str(os.getpid()),
    ]  # fmt: skip
    print(f"{part}: {seconds:.0f} s", flush=True)
    start = time.monotonic()
    ended = run_limited(words, seconds + _GRACE_S, ROOT, _environment(settings.site))
    row: Row = {"name": _RUN, "exit": ended.status, "seconds": time.monotonic() - start}
    if ended.status != 0:
        row["end"] = ended.lines[-_LAST_LINES:]
        print("\n".join(row["end"]), flush=True)
    return row


def _environment(site: Path | None) -> dict[str, str]:
    """This process's, with the packages that were brought on the path of all that it starts."""
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    places = [str(ROOT), *([str(site)] if site else []), *known]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)}


def _write(settings: Settings, log: RowLog) -> None:
    device: dict[str, Any] = log.of("facts").get("device", {"name": "device", "what": log.device})
    write_json(settings.json, results(log), device=device)


def print_rows(rows: Sequence[Row]) -> None:
    """A line a row, for people who watch."""
    for row in rows:
        cells = [f"{row['part']:10s} {row['name']:24s}"]
        if "ours_ms" in row:
            cells.append(f"ours {row['ours_ms']:.4g} ms")
        if "ratio" in row:
            cells.append(f"ratio {row['ratio']:.3f}")
        if "clean" in row:
            cells.append("clean" if row["clean"] else "FAILS")
        if "bar" in row:
            cells.append("holds" if row["bar"]["holds"] else "FAILS")
        cells += [str(row[key]) for key in ("rival", "error") if key in row]
        print(" | ".join(cells), flush=True)
