"""The machine over SSH: connection, commands, streams, and the helper that is installed there."""
