"""Faults from outside: interrupts, forks, threads, limits, kills."""
