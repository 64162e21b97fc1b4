"""Is it faster: what two runs of the same load say of each other."""
