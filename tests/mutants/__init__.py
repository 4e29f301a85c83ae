"""Mechanical mutants of our own stores: what the suite alone notices of small changes to code.

Broken stores (:mod:`conformance_tests.broken`) are mistakes that somebody thought of; a mutant is
one that nobody did. Tools that do this for any project start pytest anew for each mutant and pick
tests by function; here the checks of the suite run in one process, picked by the line.
"""
