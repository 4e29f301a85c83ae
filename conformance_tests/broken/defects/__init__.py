"""The defects, by what they spoil. Each module is found by being here."""
