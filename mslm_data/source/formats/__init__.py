"""The formats that corpora come in: one file a format."""
