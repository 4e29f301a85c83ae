"""The tests of the suite; each says by `@proves` which guarantees it shows."""
