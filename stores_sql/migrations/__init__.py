"""Schema migrations for every database here: revisions, the chain that they form, its SQL.

Opening a storage compares one stored revision with the code's and imports nothing of this but
:mod:`~stores_core.revisions`. Alembic comes in when somebody plans or migrates.

Rules for a new revision of a database:

- It is a file ``revisions/rNNNN_what.py`` with ``revision``, ``down_revision``, ``upgrade(op,
  schema)`` and ``downgrade(op, schema)``, its docstring's first line being the sentence that
  operators read. It is frozen once released: it imports no table of ours.
- Its statements need no data of the database to be written down, so that the SQL shown to people
  is the SQL that runs.
- ``CONCURRENTLY = True`` stands in one that cannot run in a transaction. Whatever half of it was
  done before, it can be run again.
- Its name says from which revision on code works with it: ``0003_from_0002``. Where older code
  must not go on, the name is the bare number and the step renames ``tenants``, which every
  statement of a store asks: so code that is running when it happens is refused too.
"""
