"""The command line: ``autosched tune resnet-18 --budget 10m``."""

from autosched.cli.start import run_and_exit

__all__ = ["run_and_exit"]
