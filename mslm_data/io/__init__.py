"""Files, archives, the cache, downloads, and the data shipped with the package."""
