"""Development programs and pinned versions; not shipped in the wheel."""
