"""The process that tunes a graph in the background: what to do comes through its standard input.

It ends with the process that started it: that input ends then.  A log of the user has what was
measured until then.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.torch_frontend.network_module import network_module
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.torch_frontend.options import BackendOptions

MODULE: Final = "tuned.asd"
_LOG: Final = "log.jsonl"
_NICE: Final = 19  # the lowest priority: whoever computes meanwhile goes first


def tune_and_save(network: Network, options: BackendOptions, folder: Path) -> None:
    """Tune a network, and write the compiled module to ``folder``.

    Raises:
        AutoschedError: as ``autosched.tune`` and ``autosched.compile``.
    """
    own = replace(options, log=options.log or folder / _LOG, quiet=True)
    network_module(network, own).save(folder / MODULE)


def _end_with(descriptor: int, folder: Path) -> None:
    """End this process when its input ends: the process that started it is gone."""
    os.read(descriptor, 1)  # not of a stream, whose lock Python would wait for when it ends
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _main() -> None:
    os.nice(_NICE)
    stream = sys.stdin.buffer
    network, options, folder = pickle.load(stream)
    threading.Thread(target=_end_with, args=(stream.fileno(), folder), daemon=True).start()
    try:
        tune_and_save(network, options, folder)
    except AutoschedError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
