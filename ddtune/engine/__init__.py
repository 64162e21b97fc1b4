"""The SGLang service: HTTP API, metrics, log lines, start phases, incidents."""
