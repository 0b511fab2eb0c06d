"""The formats of corpora, one file per format."""
