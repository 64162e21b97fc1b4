"""Programs that the embedded host puts in the place of a real host's."""
