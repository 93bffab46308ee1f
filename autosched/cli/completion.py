"""``autosched completion``: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import argparse

from autosched.cli.command import Command, Parser, mark_files

_EXAMPLES = """\
  autosched completion bash > ~/.local/share/bash-completion/completions/autosched
  autosched completion zsh > ~/.zfunc/_autosched           a folder of $fpath
  autosched completion tcsh >> ~/.tcshrc
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), metavar="SHELL",
                        help="bash, zsh or tcsh")  # fmt: skip


def _run(args: argparse.Namespace) -> None:
    from autosched.system.optional_packages import require

    require("shtab", "shell completion", '"autosched[completion]"')
    import shtab

    mark_files(args.parser, shtab.FILE)
    print(shtab.complete(args.parser, args.shell))


COMMAND = Command(
    "completion",
    "print a script that completes commands, options and files in a shell",
    "Prints a script for the shell; bash loads it from the file that the first example writes.\n"
    "Made by shtab, the extra `completion`.",
    _EXAMPLES,
    _arguments,
    _run,
)
