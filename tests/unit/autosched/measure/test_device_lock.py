"""Two processes do not measure on one GPU."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from autosched.measure.device_lock import lock_device
from autosched.measure.errors import MeasureError


def test_a_device_is_one_processes_until_it_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "devices" / "gpu-0"
    first = lock_device(path)
    with pytest.raises(MeasureError, match=r"another process .* wait until it is done"):
        lock_device(path, patience_s=0.0)
    os.close(first)
    os.close(lock_device(path))


def test_a_process_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    first = lock_device(tmp_path / "gpu-0")
    end = threading.Timer(0.2, os.close, (first,))
    end.start()
    os.close(lock_device(tmp_path / "gpu-0", patience_s=60.0))
    end.join()
