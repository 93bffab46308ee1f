"""Compiling, checking and timing candidates in child processes."""
