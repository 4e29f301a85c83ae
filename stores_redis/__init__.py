"""Stores in Redis or Valkey, as ``redis://...`` and ``rediss://...``."""
