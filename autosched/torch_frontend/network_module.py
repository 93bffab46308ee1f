"""A graph's network, compiled as the options say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched import api
from autosched.torch_frontend.graph_progress import GraphProgress
from autosched.torch_frontend.options import BackendOptions

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.module import Module


def network_module(network: Network, options: BackendOptions, name: str = "") -> Module:
    """Tune a network where that is asked for, and compile it.

    Args:
        network: of a graph.
        options: of the compilation.
        name: of the graph, for people; "": the network's.

    Raises:
        AutoschedError: as ``autosched.tune`` and ``autosched.compile``.
    """
    if options.tunes:
        api.tune(
            network,
            target=options.target,
            threads=options.threads,
            budget=options.budget,
            trials=options.trials,
            log=options.log,
            quiet=options.quiet,
            progress=None if options.quiet else GraphProgress(name or network.name, options.log),
            accuracy=options.accuracy,
        )
    return api.compile(
        network,
        target=options.target,
        threads=options.threads,
        log=options.log,
        effort=options.effort,
        denormals=options.denormals,
        accuracy=options.accuracy,
    )
