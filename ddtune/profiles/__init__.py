"""What may run: profiles, axes, dialects, releases, lint, diff, envelope."""
