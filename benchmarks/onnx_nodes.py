"""ONNX's own single-operator cases: how many run, in kernels or with the help of the host.

All cases of the installed onnx package run in worker processes; a crash or a hang counts as such,
and the next worker goes on after it.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.rows import Row, write_json

OUTCOMES = ("native", "host", "unsupported", "error", "wrong", "crash", "hang")
PASSED = ("native", "host")
BAR_PASSED = 1300
_NONE_ALLOWED = ("wrong", "crash", "hang")
_REASONS_SHOWN = 40


def run_cases(
    first: int, last: int, timeout_s: float, threads: int, only: str = ""
) -> Iterator[Row]:
    """Results of the cases ``first`` to ``last`` (excluded), as they come.

    ``timeout_s``: a case that takes longer hangs (the first one of a worker may take a minute
    more, for loading all cases).
    """
    while first < last:
        finished = False
        for row in _one_worker(first, last, timeout_s, threads, only):
            finished = row["case"] == last
            if not finished:
                yield row
            first = row["case"] + 1
        if finished:
            return


def _one_worker(first: int, last: int, timeout_s: float, threads: int, only: str) -> Iterator[Row]:
    """Results until the worker crashes or hangs; a row for case ``last`` when it is through."""
    command = [sys.executable, "-m", "benchmarks.onnx_node_case", str(first), str(last)]
    command += ["--threads", str(threads), "--only", only]
    worker = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    )
    assert worker.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_forward, args=(worker.stdout, lines), daemon=True).start()
    current: Row = {"case": first, "name": f"case {first}"}
    patience = timeout_s + 60
    try:
        while True:
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                yield current | {"outcome": "hang", "reason": f"over {timeout_s:g} s"}
                return
            if line is None:
                break
            current = json.loads(line)
            patience = timeout_s
            if "outcome" in current:
                yield current
    finally:
        worker.kill()
        status = worker.wait()
    if status == 0:
        yield {"case": last}
    else:
        yield current | {"outcome": "crash", "reason": f"the worker died with status {status}"}


def _forward(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def summary(rows: Sequence[Row]) -> Row:
    """Counts by outcome, and whether the bar holds."""
    counts = Counter(row["outcome"] for row in rows)
    passed = sum(counts[outcome] for outcome in PASSED)
    holds = passed >= BAR_PASSED and not any(counts[outcome] for outcome in _NONE_ALLOWED)
    return {
        "name": "all_cases",
        "cases": len(rows),
        "passed": passed,
        **{outcome: counts[outcome] for outcome in OUTCOMES},
        "bar": {"passed_at_least": BAR_PASSED, "none_of": list(_NONE_ALLOWED), "holds": holds},
    }


def grouped_reasons(rows: Sequence[Row], outcome: str) -> list[tuple[str, int]]:
    """Reasons of one outcome with their numbers; names, numbers and shapes are left out."""
    texts = [row["reason"] for row in rows if row["outcome"] == outcome]
    return Counter(_general(text) for text in texts).most_common()


def _general(reason: str) -> str:
    text = re.sub(r"'[^']*'", "'...'", reason.partition(" | model ")[0])
    return re.sub(r"\d+", "N", " ".join(text.split()))[:160]


def main() -> None:
    """Run all cases; prints counts and reasons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for one case")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=None)
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    arguments = parser.parse_args()
    from benchmarks.onnx_node_case import node_cases

    last = len(node_cases()) if arguments.last is None else arguments.last
    rows = []
    for row in run_cases(
        arguments.first, last, arguments.timeout, arguments.threads, arguments.only
    ):
        rows.append(row)
        if row["outcome"] in (*_NONE_ALLOWED, "error"):
            print(
                f"{row['outcome']:8s} {row['name']}: {' '.join(row['reason'].split())[:200]}",
                flush=True,
            )
    total = summary(rows)
    for outcome in ("unsupported", "error"):
        for reason, count in grouped_reasons(rows, outcome)[:_REASONS_SHOWN]:
            print(f"{count:5d} {outcome}: {reason}")
    print(f"{total['passed']} of {total['cases']} cases pass")
    print(", ".join(f"{outcome} {total[outcome]}" for outcome in OUTCOMES))
    write_json(arguments.json, [*rows, total])


if __name__ == "__main__":
    main()
