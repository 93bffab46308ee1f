"""``autosched watch``: the report of a log, live in a browser while the log grows."""

from __future__ import annotations

import argparse
from typing import Final

from autosched.cli.command import Command, Parser, say
from autosched.cli.report import add_model, reported_network, subject_of

_PORT: Final = 8620
_MOST_PORTS: Final = 65535
_EXAMPLES = """\
  autosched watch resnet-18.jsonl                      of a run that writes this log, or will
  autosched watch resnet-18.jsonl --model resnet-18    with weights and graph
  autosched watch sqlite:///team.db --port 8000        of a database
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG", help="a log; one that is not there is waited for")
    add_model(parser)
    parser.add_argument(
        "--port", type=_port, default=_PORT, metavar="N",
        help="on localhost, 0: any that is free (default: %(default)s)",
    )  # fmt: skip


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_PORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to {_MOST_PORTS}")
    return int(text)


def _run(args: argparse.Namespace) -> None:
    from autosched.page.file import library
    from autosched.records.store import open_store
    from autosched.report.page.live import LivePage
    from autosched.report.page.serving import PageServer

    bundle, store, extracted = library(), open_store(args.log), reported_network(args)
    page = LivePage(
        store, lambda found: subject_of(args.model, {store.name: found}, extracted), bundle
    )
    begun = page.check()
    with PageServer(page, args.port) as server:
        say(args, f"{server.url} shows {store.name}; Ctrl-C ends it")
        if not begun:
            say(args, "waiting for the first record")
        server.serve_forever()


COMMAND = Command(
    "watch",
    "show the report of a log in a browser while the log grows",
    "Serves the page of `autosched report` on localhost, for browsers of this machine only.  The\n"
    "page follows the log: it asks every two seconds, and is made again when the log has grown.\n"
    "Roofs are not measured, as that would disturb the run.  Ctrl-C ends it.",
    _EXAMPLES,
    _arguments,
    _run,
)
