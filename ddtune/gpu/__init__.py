"""GPU readings and what they mean."""
