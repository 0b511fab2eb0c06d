"""Builders of what strategies and annotators need besides a corpus, such as concept models."""
