"""Stores with one defect each, which the suite has to catch: how the suite itself is examined.

A defect stands at the place of one store, behind the front of any good backend, and makes one
plausible mistake; ``defects/`` holds them. ``python -m conformance_tests.broken`` runs the suite
against them and writes down which test caught which.
"""
