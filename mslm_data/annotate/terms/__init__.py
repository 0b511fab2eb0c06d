"""A table of terms as an annotator: reads the table and finds its names in text."""
