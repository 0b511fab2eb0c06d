"""Encoding: turns documents and their sentences into rows of tokens, with tags and mentions."""
