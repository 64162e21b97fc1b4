"""The entry point: help and version at once, everything else by the group of commands."""

from __future__ import annotations

import os
import sys

from ddtune import __version__
from ddtune.cli.commands import ABOUT, COMMANDS


def main() -> None:
    """Run the command line of this process."""
    try:
        _main(sys.argv[1:])
    except BrokenPipeError:
        # Whoever read has read enough; nothing more may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _main(args: list[str]) -> None:
    match args:
        case [] | ["-h"] | ["--help"]:
            print(usage())
        case ["--version"]:
            print(f"ddtune {__version__}")
        case _:
            from ddtune.cli.group import run

            run()


def usage() -> str:
    """The text of ``--help``, for which nothing is imported."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items())
    return f"""Usage: ddtune COMMAND [HOST] [OPTIONS]

{ABOUT}

Commands:
{commands}

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit."""


if __name__ == "__main__":
    main()
