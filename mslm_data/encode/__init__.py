"""Encoding: converts documents to rows of tokens with tags and mentions."""
