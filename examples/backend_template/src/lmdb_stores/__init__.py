"""Runs, notes and tool results in LMDB, a memory-mapped file with one writer at a time."""
