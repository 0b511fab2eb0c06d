"""Makes local files from `--input`, or from the public home of a corpus."""
