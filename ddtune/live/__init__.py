"""The snapshot and the hub that makes it."""
