"""Faults: what a store is put through, each a module of its own that works on any backend.

``killing`` ends writing processes at any moment, ``server`` ends a server. ``writing`` says what is
written meanwhile, ``looking`` what has to be found afterwards.

A run with fewer than ``command.LEAST`` acknowledged operations while its fault could happen says
nothing, and is never counted as one that passed.
"""
