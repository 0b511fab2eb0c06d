"""The annotator `terms`: finds the names of a table in text."""
