"""Stores in a folder of plain files, as ``file:path``."""
