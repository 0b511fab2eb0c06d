"""What users call: build, load, mix and show folders, and annotate texts."""
