"""``python -m autosched`` is the command ``autosched``."""

from autosched.cli import run_and_exit

if __name__ == "__main__":
    run_and_exit()
