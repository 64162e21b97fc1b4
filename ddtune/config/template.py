"""The configuration file as it begins: everything in it is a comment."""

from __future__ import annotations

import os
from pathlib import Path

TEMPLATE = """\
# The hosts of ddtune. An alias of ~/.ssh/config or user@host:port needs no table here: write one to say more.
# Take the marks off what you need; what is left out has the value shown.

# [hosts.b300]                          # the name for the command line: ddtune connect b300
# ssh = "b300"                          # an alias, or user@host:port; the table's name when left out
# unit = "sglang.service"               # needed where several services run; found otherwise
# api_port = 30000
# api_key_file = "/etc/sglang/api-key"  # read on the host, never leaves it; none when left out
# traffic = "open"                      # "held": only loopback reaches a trial until its quick gate passed
# protected = false                     # true: ask for the host's name before a write
# confirm_login = "fresh"               # "same": for logins that need a touch or a code
# write = true                          # the dashboard opens writable; false: nothing here is ever changed. Left out:
#                                       # the dashboard opens read-only, and a command that changes something may
# python = "/usr/bin/python3"           # on the host, 3.9 or newer
# user = "ops"                          # these four count before what OpenSSH's configuration says
# port = 22
# identity = "~/.ssh/id_ed25519"
# known_hosts = "~/.ssh/known_hosts"

# [hosts.b300.limits]                   # seconds
# drain_s = 30                          # wait for running requests before a stop
# lease_s = 120                         # the host goes back by itself when it hears nothing for so long
# renew_s = 10
# start_deadline_s = 1800
# progress_s = 600                      # without a step forward in a start
# confirm_deadline_s = 3600             # the whole trial
# stop_grace_s = 5                      # between a fatal line and a kill
# stop_timeout_s = 45
# probation_s = 259200                  # an unasked end within it goes back to the previous release
# soak_s = 300                          # these two count before the profile's own
# soak_requests = 200
"""


def write_template(path: Path) -> bool:
    """Write the template to ``path``, readable by its owner alone; False when there is a file already.

    Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with open(opened, "w", encoding="utf-8") as file:
        file.write(TEMPLATE)
    return True
