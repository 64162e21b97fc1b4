"""Every command: its name, the module that holds it, and one line for ``--help``."""

from __future__ import annotations

COMMANDS = {
    "connect": ("ddtune.cli.connect", "The dashboard of one or more hosts; read-only unless --write."),
    "demo": ("ddtune.cli.demo", "The dashboard on an embedded host with eight simulated B300s."),
    "status": ("ddtune.cli.status", "One reading of everything."),
    "doctor": ("ddtune.cli.doctor", "What works on a host, what does not, and what to do."),
    "profiles": ("ddtune.cli.profiles", "List, show, compare and check profiles."),
    "adopt": ("ddtune.cli.adopt", "Put a service under ddtune; restarts nothing."),
    "unadopt": ("ddtune.cli.adopt", "Take a service out again; restarts nothing."),
    "switch": ("ddtune.cli.switch", "Switch to another profile; the host rolls back by itself."),
    "restart": ("ddtune.cli.switch", "Restart the same release behind the same gates."),
    "rollback": ("ddtune.cli.switch", "Back to the stable profile now."),
    "abort": ("ddtune.cli.switch", "Stop the running transaction; the host goes back to stable."),
    "gate": ("ddtune.cli.gate", "Judge the running service."),
    "canary": ("ddtune.cli.canary", "Check tree attention under CUDA graphs beside the service."),
    "golden": ("ddtune.cli.golden", "Make the reference answers that later gates are judged by."),
    "watch": ("ddtune.cli.watch", "Watch without a screen: canaries, the way back, notifications."),
    "history": ("ddtune.cli.history", "What happened on a host and why."),
    "evidence": ("ddtune.cli.evidence", "A redacted tar of one operation, for a ticket."),
    "record": ("ddtune.cli.record", "Record what the dashboard sees of a host into a file."),
    "replay": ("ddtune.cli.record", "The dashboard on a recording."),
    "hosts": ("ddtune.cli.hosts_command", "List, test and edit the configured hosts."),
}

ABOUT = """\
Watch and safely change a speculative-decoding SGLang service over SSH.

HOST is a name of ddtune's config file, an alias of ~/.ssh/config, user@host[:port], or `demo`, an embedded host that
needs no GPU, no root and no network. Every command but connect and replay takes --json; all take -h."""
