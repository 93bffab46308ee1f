"""Targets: what code is made for."""
