"""The steps between revisions of the stored format, each with its way back."""
