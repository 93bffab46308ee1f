"""The command line: ``autosched tune resnet-18 --budget 10m``."""

from autosched.cli.app import main

__all__ = ["main"]
