"""Where everything lies. docs/files.md has a line for each entry.

    agent-stores.json            the stored format's version, and what cursors are bound to
    tenants/TENANT/
      tenant.json                the tenant's name
      runs.jsonl                 what is listed: one line for each run made, relabelled, deleted
      runs/RUN/
        run.json                 header, labels, and what the run reads of other journals
        journal.jsonl            what the run wrote itself
        JOURNAL.jsonl            a journal that it shares, as one more name of the same file
      logs/LOG.jsonl             each journal under its own name, for exports and for sweep
      notes.json                 the embedder in use, and the floor of versions
      notes/NAMESPACE/
        notes.jsonl              one line for each change of a note
        vectors-ID.f32           rows of float32
      results.jsonl              as runs.jsonl, for tool results
      results/REF/               result.json, text.txt, rest.json
      contents/SHA256            each text, and each rest, under its digest
      staging/, trash/           what is being made, and what is being removed

Names in capitals are made by stores_files.names.
"""

MARKER = "agent-stores.json"
TENANTS = "tenants"

TENANT = "tenant.json"
CATALOG = "runs.jsonl"
RUNS, LOGS, NOTES, RESULTS = "runs", "logs", "notes", "results"
STAGING, TRASH = "staging", "trash"

RESULT_CATALOG, CONTENTS = "results.jsonl", "contents"

HEADER = "run.json"
RESULT, TEXT, REST = "result.json", "text.txt", "rest.json"
JOURNAL = "journal.jsonl"
ENDING = ".jsonl"
"""What a shared journal's name ends in."""

NOTES_JOURNAL = "notes.jsonl"
VECTORS, VECTORS_ENDING = "vectors-", ".f32"
"""How the name of a file of vectors begins and ends."""

NOTES_STATE = "notes.json"
"""What holds for all notes of a tenant."""
