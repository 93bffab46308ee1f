"""Rows of results: built from a comparison, written as JSON, printed as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import OURS, Comparison
from benchmarks.machine import machine, versions
from benchmarks.peak import NAME as PEAK

Row = dict[str, Any]
SLOW = 0.9
"""Ratios of small modules below it are named."""


def comparison_row(
    name: str, threads: int, flops: float, comparison: Comparison, apart: Sequence[str] = ()
) -> Row:
    """One row: milliseconds of all, the ratio to the fastest rival, the share of the peak.

    Args:
        name: of the row.
        threads: that all of them had.
        flops: of one run.
        comparison: their times.
        apart: contenders that are no rivals.
    """
    rivals = comparison.rivals(excluded=(PEAK, *apart))
    row: Row = {
        "name": name,
        "threads": threads,
        "gflop": flops / 1e9,
        "rivals_ms": {rival: comparison.milliseconds(rival) for rival in rivals},
        "prepare_s": dict(comparison.prepare_s),
        "notes": {who: note for who, note in comparison.notes.items() if note},
        "far_turns": comparison.far_turns,
        "rounds_ms": {who: [t * 1e3 for t in ts] for who, ts in comparison.rounds.items()},
    }
    if OURS in comparison.rounds:
        row |= _ours(row, comparison, rivals)
    if PEAK in comparison.rounds:
        row |= _share_of_peak(row, comparison)
    return row


def _ours(row: Row, comparison: Comparison, rivals: Sequence[str]) -> Row:
    ours: Row = {"ours_ms": comparison.milliseconds(OURS)}
    ours |= dict(comparison.details.get(OURS, {}))
    ours["ours_gflops"] = row["gflop"] / ours["ours_ms"] * 1e3
    if rivals:
        ours["ratio"], ours["ratio_low"] = comparison.ratio(rivals)
        ours["fastest_rival"] = min(rivals, key=comparison.milliseconds)
        ours["ratios"] = {
            r: dict(zip(("ratio", "ratio_low"), comparison.ratio([r]), strict=True)) for r in rivals
        }
    return ours


def _share_of_peak(row: Row, comparison: Comparison) -> Row:
    peak = comparison.details[PEAK]["operations"] / comparison.milliseconds(PEAK) / 1e6
    share = row["ours_gflops"] / peak if "ours_gflops" in row else None
    rivals = {r: row["gflop"] / ms * 1e3 / peak for r, ms in row["rivals_ms"].items()}
    shares: Row = {"peak_gflops": peak, "rivals_peak_share": rivals}
    return shares if share is None else {**shares, "peak_share": share}


def write_json(path: str | None, rows: Sequence[Row], **sections: Mapping[str, Any]) -> None:
    """Write ``{"machine", "versions", "rows", ...}``; does nothing without a path."""
    if path is None:
        return
    content = {"machine": machine(), "versions": versions(), **sections, "rows": list(rows)}
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")


def kept_rows(path: str | None, budget: str) -> list[Row]:
    """The rows of an earlier run with the same budget, which may have been stopped."""
    if path is None or not Path(path).exists():
        return []
    return [row for row in json.loads(Path(path).read_text())["rows"] if row["budget"] == budget]


def with_earlier(path: str | None, rows: Sequence[Row]) -> list[Row]:
    """The rows of an earlier run on this kind of processor, with those of now in their places."""
    if path is None or not Path(path).exists():
        return list(rows)
    before = json.loads(Path(path).read_text())
    new = {(row["name"], row["threads"]): row for row in rows}
    same = before["machine"]["cpu"] == machine()["cpu"]
    kept = [new.pop((r["name"], r["threads"]), r) for r in before["rows"]] if same else []
    return [*kept, *new.values()]


def print_row(row: Row) -> None:
    """One line for people who watch."""
    cells = [f"{row['name']:32s} {row['threads']}t"]
    if "ours_ms" in row:
        cells.append(f"ours {row['ours_ms']:8.3f} ms {row['ours_gflops']:6.1f} GFLOPS")
    if "ratio" in row:
        cells.append(f"ratio {row['ratio']:.3f} (low {row['ratio_low']:.3f})")
    if "peak_gflops" in row:
        cells.append(f"peak {row['peak_gflops']:.0f}")
    if "peak_share" in row:
        cells.append(f"share {row['peak_share']:.1%}")
    if "tile_peak_share" in row:
        cells.append(f"of tile registers {row['tile_peak_share']:.1%}")
    if "float_ratio" in row:
        cells.append(f"times float32 {row['float_ratio']:.2f}")
    cells += [f"{rival} {ms:.3f}" for rival, ms in row["rivals_ms"].items()]
    print(" | ".join(cells), flush=True)


def print_bars(row: Row) -> None:
    """What the row does not count, and each bar that it has to reach."""
    for flag in row["flags"]:
        print(f"    INCOMPLETE: {flag}")
    for what, holds in row["bars"].items():
        print(f"    {'holds' if holds else 'FAILS'}: {what}", flush=True)


def geometric_means(rows: Sequence[Row], columns: Sequence[str]) -> Row:
    """Of ratios, over all rows that have them."""
    found: Row = {"networks": len({row["name"] for row in rows})}
    for column in columns:
        values = [row[column] for row in rows if column in row]
        if values:
            found[column] = float(np.exp(np.mean(np.log(values))))
    return found
