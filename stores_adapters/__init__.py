"""Adapters: the stores behind the interfaces of other agent runtimes."""
