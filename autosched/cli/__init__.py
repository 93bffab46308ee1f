"""The command line: ``autosched tune resnet-18 --budget 10m``."""

from autosched.cli.app import main, run_and_exit

__all__ = ["main", "run_and_exit"]
