"""ddtune: safe profile switches and live readings for a speculative-decoding SGLang service."""

__version__ = "0.1.0"
