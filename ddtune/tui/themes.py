"""Two themes of our own, and the terminal's own colours."""

from __future__ import annotations

from textual.theme import Theme

_LOUD = {"loud": "#b42345", "loud-foreground": "#ffffff", "busy": "#1f6fb2", "busy-foreground": "#ffffff"}

# What themes of others lack: the terminal's own colours.
DEFAULTS = {
    "loud": "ansi_red",
    "loud-foreground": "ansi_bright_white",
    "busy": "ansi_blue",
    "busy-foreground": "ansi_bright_white",
    "muted": "ansi_bright_black",
}

DARK = Theme(
    name="ddtune-dark",
    primary="#4aa3df",
    secondary="#6f8fb0",
    accent="#62c6d6",
    warning="#e8b34b",
    error="#ef6a7f",
    success="#6ccf8e",
    foreground="#dde3ea",
    background="#10151c",
    surface="#151c25",
    panel="#1d2632",
    dark=True,
    variables={**_LOUD, "muted": "#8a97a6"},
)
LIGHT = Theme(
    name="ddtune-light",
    primary="#1d6fa5",
    secondary="#4d6a86",
    accent="#08626f",
    warning="#7f5000",
    error="#b3203b",
    success="#16652f",
    foreground="#1c242c",
    background="#fbfbf9",
    surface="#f3f3ef",
    panel="#e6e7e2",
    dark=False,
    variables={**_LOUD, "muted": "#535e68"},
)
NAMES = {"dark": DARK.name, "light": LIGHT.name, "terminal": "ansi-dark", "terminal-light": "ansi-light"}
"""What a configuration calls them, in the order in which a key goes through them."""
CYCLE = tuple(NAMES.values())
