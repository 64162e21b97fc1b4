"""An embedded B300 host: SSH server, supervisor, engine with recorded faults."""
