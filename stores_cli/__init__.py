"""The ``agent-stores`` command: migrate, move and look, on any backend that a URL names."""
