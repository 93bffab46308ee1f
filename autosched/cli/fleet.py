"""``autosched fleet``: the machines that ``--runner`` measures on."""

from __future__ import annotations

import argparse

from autosched.cli.command import Command, Parser, add_json, say, write_json
from autosched.cli.waiting import Waiting
from autosched.fleet.chosen import check_runner, fleet_of
from autosched.fleet.errors import FleetError
from autosched.system.errors import OptionError

_EXAMPLES = """\
  autosched fleet                                the cluster of Ray that this machine is part of
  autosched fleet --runner ray://head:10001      another, by the address that Ray takes clients at
  autosched tune resnet-18 --runner ray --target cpu:cascadelake       use its machines
"""


def runner_name(text: str) -> str:
    """An argparse type: the name of a runner."""
    try:
        return check_runner(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(f"{error.what}: {error.hint}") from None


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "--runner", type=runner_name, default="ray", metavar="ray[://HOST:PORT]",
        help="which cluster (default: the one that this machine is part of)",
    )  # fmt: skip
    add_json(parser)


def _run(args: argparse.Namespace) -> None:
    with Waiting("looking at the machines", args.quiet), fleet_of(args.runner) as fleet:
        assert fleet is not None, "a name was given"
        states = fleet.states()
    if not states:
        raise FleetError("the cluster has no machine with a CPU", args.runner, "add one")
    from autosched.fleet.listing import listing

    write_json(args.json, [state.to_json() for state in states])
    say(args, listing(states))


COMMAND = Command(
    "fleet",
    "list the machines that `tune --runner ray` measures on",
    "Targets are the names that `tune --target` takes.  Load is the system's.  The sentinel is a\n"
    "small matrix product that every batch carries: its usual time says how fast a machine is,\n"
    "its noise how far the middle timing is above that.  A busy machine works for another run.",
    _EXAMPLES,
    _arguments,
    _run,
)
