"""Files, archives, caches, remote folders and the resources that travel with the package."""
