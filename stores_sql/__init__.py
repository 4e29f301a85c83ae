"""Stores in SQL databases: SQLite, as ``sqlite:path``, and Postgres, as ``postgresql://...``."""
