"""Histories: many writers and readers at once, every call and answer recorded, and judged exactly.

``planning`` says what each worker sends, ``driving`` and ``processes`` have it sent and recorded,
``checking`` tells whether one order of all the calls explains every answer.
"""
