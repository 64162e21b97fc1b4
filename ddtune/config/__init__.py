"""Hosts and settings: TOML to models, and the paths they live at."""
