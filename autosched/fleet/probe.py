"""What is run on every machine first, to see what it has.

The function is sent as it is written, not by name: it must run where our package is not installed,
or is another release.  So nothing of ours is imported outside it.
"""

from __future__ import annotations


def probe(node: str, cpus: int, gpus: float, builds_only: bool) -> tuple[dict[str, str], bytes]:
    """Versions of the software, and the pickled ``FleetMachine``.

    Args:
        node: Ray's name of the machine.
        cpus: that Ray may use.
        gpus: that it may use.
        builds_only: the machine times nothing.

    Returns:
        No versions, and why, where the package cannot be loaded.
    """
    import pickle

    try:
        from autosched.system.code_digest import code_digest
        from autosched.system.versions import software_versions
    except Exception as error:
        return {}, f"{type(error).__name__}: {error}".encode()
    versions = {**software_versions(), "code": code_digest()}
    try:
        from autosched.fleet.machine import this_machine
    except ImportError:  # another release, as its versions say
        return versions, b""
    return versions, pickle.dumps(this_machine(node, cpus, gpus, builds_only))
