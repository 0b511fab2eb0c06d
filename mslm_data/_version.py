"""The version of this package, where any room can import it without importing the public API."""

__version__ = "0.1.0"
