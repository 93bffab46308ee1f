"""``autosched compile``: a network as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from autosched.cli.command import Command, Parser, add_log, add_model, open_module

_EXAMPLES = """\
  autosched compile resnet-18 --log resnet-18.jsonl -o resnet-18.asd
  autosched compile model.onnx --threads 1
"""


def _arguments(parser: Parser) -> None:
    add_model(parser, compiled=False)
    add_log(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="default: MODEL.asd")


def _run(args: argparse.Namespace) -> None:
    output = Path(args.output or f"{Path(args.model).name.removesuffix('.onnx')}.asd")
    open_module(args).save(output)
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB")


COMMAND = Command(
    "compile",
    "write a compiled network to a file",
    "Compiles a network and writes machine code, packed constants and the plan to one file, which\n"
    "autosched.load, `autosched bench` and `autosched profile` read at once.",
    _EXAMPLES,
    _arguments,
    _run,
)
