"""Relocatable ELF objects as values: read, merged into one, written; no linker needed."""
