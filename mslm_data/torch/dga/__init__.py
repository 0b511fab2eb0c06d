"""Keep general knowledge while adapting (Ke et al. 2022)."""
