"""Stores in Postgres, as ``postgresql://...``, with pgvector for embeddings."""
