"""Programs at random: steps on all stores, each answer compared with the oracle's.

A program is a list of calls of step methods; a failing one is printed as Python to be pasted into
a test. Runs, notes and results have their steps in a module each; ``stage`` has those for all.
"""
