"""The exam that every backend takes: the numbered guarantees of `stores_core`, each shown by tests.

Run it with ``python -m conformance_tests MODULE:OPENER`` or ``--url URL``.
"""
