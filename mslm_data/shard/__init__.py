"""Shards: `Examples` as Arrow files, with a manifest; FORMAT.md is the data model."""
