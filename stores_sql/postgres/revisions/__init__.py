"""The revisions of the schema of Postgres, one a file."""
