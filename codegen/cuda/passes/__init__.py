"""Passes from a loop nest to functions of the device."""
