"""A stand-in for an SGLang server with DDTree: its command line, HTTP API, metrics, log lines, speeds and faults."""
