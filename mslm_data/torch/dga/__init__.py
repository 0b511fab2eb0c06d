"""DGA: adapt an encoder without losing its general knowledge (Ke et al. 2022)."""
