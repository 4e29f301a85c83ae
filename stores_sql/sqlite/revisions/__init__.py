"""The revisions of the stored format of SQLite, one a file."""
