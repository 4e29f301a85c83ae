"""Databases of older revisions, made by the code of their time, and what that code read in them.

`NAME.json.gz` is the export of every tenant. SQLite has its file as it was left, files their folder
(`.tar.gz`), Postgres the script that made the tables (`.sql.gz`) and their rows (`.rows.json.gz`),
Redis the commands that make its keys (`.commands.json.gz`).
"""
