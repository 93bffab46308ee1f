"""All that only a GPU can show, in one command that may be cut short and goes on from its log.

    python benchmarks/gpu.py --minutes 9 --json out/gpu.json

Parts run in order of value, each in a process of its own with its share of the time; every row is
in the log at once, and the file of results is written after every part.  Run it again with the same
``--log``: what is done is kept, tuning goes on.  A machine without a network gets what it lacks
from ``--wheels``, a folder that ``python -m benchmarks.gpu_parts.wheels`` fills elsewhere.  Without
a GPU, ``--device emulated`` runs it all on small sizes, with times that are estimates.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from subprocess import CalledProcessError

ROOT = Path(__file__).parents[1]
if not __package__:  # run as a file: its folder is on the path, and what it imports is not
    sys.path[0] = str(ROOT)


def main() -> None:
    """Bring what is missing, then run."""
    from benchmarks.gpu_parts.wheels import install

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=9.0, help="of the whole run")
    parser.add_argument("--device", choices=("gpu", "emulated"), default="gpu")
    parser.add_argument("--log", type=Path, default=Path("out/gpu"), help="folder to go on from")
    parser.add_argument("--parts", nargs="+", metavar="PART", help="default: all")
    parser.add_argument("--wheels", type=Path, help="folder of wheels of what is not installed")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    site = None
    if arguments.wheels is not None:
        site = Path(tempfile.mkdtemp())
        try:
            installed = install(arguments.wheels, site)
        except CalledProcessError:
            sys.exit(f"{arguments.wheels}: pip cannot install these wheels here, see above")
        print(f"installed: {', '.join(installed) or 'nothing was missing'}")
        sys.path.insert(1, str(site))

    from benchmarks.gpu_parts.run import PARTS, Settings, print_rows, run
    from sketch.errors import TargetError

    parts = arguments.parts or list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]}: {', '.join(PARTS)}")
    settings = Settings(
        arguments.device, arguments.minutes, arguments.log.absolute(), parts, arguments.json, site
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        rows = run(settings)
    except TargetError as error:
        sys.exit(f"{error}; --device emulated runs it on this machine's CPU")
    except KeyboardInterrupt:
        sys.exit(f"interrupted: the same command goes on from {settings.folder}")
    print_rows(rows)


if __name__ == "__main__":
    main()
