"""Measurements of autosched next to other runtimes, interleaved in one run."""
