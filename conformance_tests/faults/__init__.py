"""Faults: what a store is put through, each a module of its own that works on any backend.

``killing`` ends writing processes at any moment, ``server`` ends a server. ``writing`` says what is
written meanwhile, ``looking`` what has to be found afterwards. ``system_calls`` kills a process at
each call that changes files, or lets the call fail; ``full_disk`` lets no file grow; ``alone`` has
the process that both do it to. ``power_cuts`` lets the power fail: ``recording`` has what such a
process did to its files (``calls``, ``replaying``, ``folder``), ``crash_states`` what the disk may
hold then, ``recovering`` what has to be found there. ``proxy`` stands before a server:
``cutting`` cuts at each byte of each reply, ``modes`` is the rest of what a network may do.
``cancelling`` cancels at each await; ``acting`` has the operations that all these do. ``clocks``
steps.

A run with fewer than ``command.LEAST`` acknowledged operations while its fault could happen says
nothing, and is never counted as one that passed.
"""
