"""The public functions: build, load, mix and show folders, and annotate texts."""
