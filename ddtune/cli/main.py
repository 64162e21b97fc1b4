"""The ``ddtune`` command: a group whose commands are imported only when they run."""

from __future__ import annotations

import importlib

import click

from ddtune import __version__

# name → (module, one line for --help). The line stands here so that help imports no command.
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
    "history": ("ddtune.cli.history", "What happened on a host and why."),
    "evidence": ("ddtune.cli.evidence", "A redacted tar of one operation, for a ticket."),
    "hosts": ("ddtune.cli.hosts_command", "List, test and edit the configured hosts."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None when there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table alone."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest names when there is no such command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else " See ddtune --help."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ddtune")
def main() -> None:
    """Watch and safely change a speculative-decoding SGLang service over SSH.

    HOST is a name of ddtune's config file, an alias of ~/.ssh/config, user@host[:port], or `demo`, an embedded host
    that needs no GPU, no root and no network. Every command takes --json.
    """


if __name__ == "__main__":
    main()
