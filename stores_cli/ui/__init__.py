"""``ui``: a read-only web page on this machine, to look at what a backend holds."""
