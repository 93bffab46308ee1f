"""``python -m autosched`` is the command ``autosched``."""

import sys

from autosched.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
