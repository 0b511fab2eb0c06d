"""Helpers shared by tests of several rooms."""
