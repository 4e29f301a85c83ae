"""Stores in a SQLite file, as ``sqlite:path``."""
