"""Schedules: steps, the program that they make, decisions and sketches."""
