"""Makes those pages of the manual that come from code and data, when Sphinx builds it."""
