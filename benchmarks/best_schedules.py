"""Make the file of best schedules that a release comes with: ``autosched.search.best_schedules``.

``python -m benchmarks.best_schedules benchmarks/logs/*.jsonl benchmarks/logs/*/*.jsonl``
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterable
from pathlib import Path

from autosched.records.log import RecordLog
from autosched.search.best_schedules import SHIPPED
from autosched.search.nearest import bests_of_tasks


def packed(logs: Iterable[Path]) -> bytes:
    """The best candidate of each task and machine, as a compressed log; equal logs, equal bytes."""
    records = [record for log in logs for record in RecordLog(log).read().records]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.jsonl"
        RecordLog(path).append(bests_of_tasks(records))
        return gzip.compress(path.read_bytes(), mtime=0)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("-o", "--output", type=Path, default=SHIPPED, metavar="FILE")
    arguments = parser.parse_args()
    text = packed(arguments.logs)
    arguments.output.write_bytes(text)
    print(f"{arguments.output.name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
