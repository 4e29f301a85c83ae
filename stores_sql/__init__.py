"""Stores in SQL databases: SQLite, as ``sqlite:path``."""
