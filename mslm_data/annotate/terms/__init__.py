"""A table of terms as an annotator: reading the table, matching it, and flattening what it finds."""
