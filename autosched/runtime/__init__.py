"""Compiled networks: memory, the native plan, running, profiling, saving and loading."""
