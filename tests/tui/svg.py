"""Screens as SVG files beside the tests, the same on every run."""

from __future__ import annotations

import re
from typing import Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from ddtune.tui.app import DdtuneApp


class SvgExtension(SingleFileSnapshotExtension):
    file_extension = "svg"
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_: Any) -> str:
        return str(data)


def picture(app: DdtuneApp) -> str:
    """The screen, without the ids that are new on each export."""
    return re.sub(r"terminal-\d+-", "terminal-", app.export_screenshot(title="ddtune", simplify=True))
