"""Proof that a loop nest is sound: what every nest must satisfy before code is made of it."""

from sketch.verify.nest import verify

__all__ = ["verify"]
