"""``autosched operators``: what of ONNX becomes kernels."""

from __future__ import annotations

import argparse
import textwrap
from typing import Final

from autosched.cli.command import Command, Parser, add_json, say, write_json

_WIDTH: Final = 100
_EXAMPLES = """\
  autosched operators                      all of them
  autosched operators --json -             for a program
"""


def _run(args: argparse.Namespace) -> None:
    from autosched.system.optional_packages import require

    require("onnx", "importing ONNX models", '"autosched[onnx]"')
    from autosched.onnx.importer.table import IMPORTERS

    names = sorted(IMPORTERS)
    write_json(args.json, names)
    say(args, textwrap.fill(", ".join(names), _WIDTH, break_on_hyphens=False))
    say(args, f"{len(names)} operators; others are made of these, or run on the host")


def _arguments(parser: Parser) -> None:
    add_json(parser)


COMMAND = Command(
    "operators",
    "list the ONNX operators that become kernels",
    "Lists the operators of ONNX with kernels of their own.  Most others are made of these by the\n"
    "definitions that ONNX gives, or run on the host: in onnxruntime, or in ONNX's reference.",
    _EXAMPLES,
    _arguments,
    _run,
)
