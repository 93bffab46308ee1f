"""``autosched summary``: what a network is made of."""

from __future__ import annotations

import argparse

from autosched.cli.command import Command, Parser, say
from autosched.cli.model import add_log, add_model, add_numerics, open_module

_EXAMPLES = """\
  autosched summary resnet-18                              all tasks of the network
  autosched summary resnet-18 --log resnet-18.jsonl        what is tuned already
"""


def _arguments(parser: Parser) -> None:
    add_model(parser)
    add_log(parser)
    add_numerics(parser)


def _run(args: argparse.Namespace) -> None:
    say(args, open_module(args, runs=False).summary())


COMMAND = Command(
    "summary",
    "list the kernels of a network, its tasks, and which of them are tuned",
    "Compiles a network and lists its kernels: the model's layers in each, shapes, task, and\n"
    "whether its schedule was measured or only predicted.",
    _EXAMPLES,
    _arguments,
    _run,
)
