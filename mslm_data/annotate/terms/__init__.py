"""Annotates with a table of terms: reads the table, and finds its names in text."""
