"""Programs and pinned versions for those who work on the package; not shipped in the wheel."""
