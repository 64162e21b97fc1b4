"""The keys that work on every screen; each has an id, by which it can be bound to another key."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

BINDINGS: list[BindingType] = [
    Binding("question_mark", "help", "Help", id="help", tooltip="These keys"),
    Binding("s", "switch", "Switch", id="switch-profile", tooltip="Choose a profile, plan and switch"),
    Binding("b", "roll_back", "Roll back", id="roll-back", tooltip="Roll back: b, then y"),
    Binding("o", "run", "Progress", id="show-run", tooltip="The change that runs, or how the last one ended"),
    Binding("P", "profiles", "Profiles", id="profiles", tooltip="Profiles and how they stand on this host"),
    Binding("l", "log", "Log", id="log", tooltip="The log in full"),
    Binding("H", "history", "History", id="history", tooltip="What happened on this host, with evidence"),
    Binding("W", "unlock", "Unlock", id="unlock", tooltip="Allow changes for 15 minutes"),
    Binding("q", "back", "Quit", id="back", tooltip="Back; quit on the live screen"),
    Binding("escape", "back_only", "Back", id="back-only", show=False, tooltip="Back"),
    Binding("colon", "command_palette", "Commands", id="palette", show=False),
    Binding("t", "next_theme", "Theme", id="theme", show=False, tooltip="Dark, light, the terminal's own colours"),
    Binding("S", "save_screen", "Screenshot", id="screenshot", show=False, tooltip="Save the screen as SVG"),
    Binding("T", "save_text", "Text", id="text", show=False, tooltip="Save the screen as plain text, to copy from"),
    Binding("r", "refresh", "Refresh", id="refresh", show=False, tooltip="Paint again; try a lost link at once"),
    Binding("ctrl+q,ctrl+c", "quit", "Quit", id="quit", show=False, priority=True, tooltip="Quit"),
]


def commands(app: App[None], screen: Screen[object]) -> Iterable[SystemCommand]:
    """What the living keys of a screen do, for the palette, each once."""
    seen = set()
    for active in screen.active_bindings.values():
        binding, node = active.binding, active.node
        if active.enabled and binding.description and not binding.system and binding.action not in seen:
            seen.add(binding.action)
            run = functools.partial(app.run_action, binding.action, node)
            yield SystemCommand(binding.description, binding.tooltip or "", run)
