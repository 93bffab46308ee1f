"""Tuning: jobs, task scheduler, loop and results."""
