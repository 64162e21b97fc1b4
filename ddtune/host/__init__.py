"""The machine over SSH: connection, exec, streams, ports."""
