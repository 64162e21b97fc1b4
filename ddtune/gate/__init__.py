"""Is it right: canaries, coding problems, agreement, detectors, verdict."""
