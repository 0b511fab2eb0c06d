"""Makes local files of what `--input` was given, or of a corpus at its public home."""
