"""journalctl: which entries, in which form, and following them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ddtune.sim.cmdline import Answer, options, unit_name
from ddtune.sim.journal import Entry, Journal
from ddtune.sim.supervisor import UnitError

_VALUED = {"-u": "-u", "--unit": "-u", "-n": "-n", "--lines": "-n", "-o": "-o", "--output": "-o"}
_VALUED |= {"--boot": "-b", "--after-cursor": "--after-cursor"}
_TAIL = 10


def _wanted(found: dict[str, list[str]]) -> Callable[[Entry], bool]:
    units = {unit_name(name) for name in found.get("-u", [])}
    kernel = "-k" in found or "--dmesg" in found

    def wanted(entry: Entry) -> bool:
        return (not kernel or entry.kernel) and (not units or not units.isdisjoint(entry.units))

    return wanted


def _lines(found: dict[str, list[str]]) -> int | None:
    text = found.get("-n", [None])[-1]
    if text is None:
        return _TAIL if "-f" in found and "--no-tail" not in found and "--after-cursor" not in found else None
    if text == "all":
        return None
    if not text.isdigit():
        raise UnitError(f"Failed to parse lines '{text}'")
    return int(text)


async def journalctl(journal: Journal, argv: list[str], answer: Answer) -> int:
    """Prints entries as the real program does, with ``-f`` until its reader goes."""
    # -b takes a value only when it is attached; there is one boot here, so any of them is this one.
    found, rest = options([word for word in argv if word not in ("-b", "--boot")], _VALUED)
    if rest:
        raise UnitError(f"Failed to add match '{rest[0]}': Invalid argument")
    form = {"json": Entry.json, "cat": Entry.cat}.get(found.get("-o", ["short"])[-1], Entry.short)
    wanted, limit, after = _wanted(found), _lines(found), found.get("--after-cursor", [None])[-1]

    async def write(entries: Iterable[Entry]) -> int:
        chosen = list(entries)
        for at in range(0, len(chosen), 500):
            await answer.out(b"".join(form(entry) for entry in chosen[at : at + 500]))
        return len(chosen)

    reached = journal.last.number if journal.last else 0
    try:
        start = 0 if after is None else journal.seek(after)
    except ValueError:
        raise UnitError("Failed to seek to cursor: Invalid argument") from None
    known = [entry for entry in journal.after(start) if wanted(entry)]
    # After a cursor the real program counts from there, otherwise from the end.
    if limit is not None:
        known = known[:limit] if after is not None else known[max(0, len(known) - limit) :]
    shown = await write(known)
    if "-f" in found or "--follow" in found:
        if after is not None and limit is not None and shown >= limit:
            reached = known[-1].number if known else start
        while True:
            entries = list(await journal.follow(reached))
            reached = entries[-1].number if entries else reached
            await write(entry for entry in entries if wanted(entry))
    if (shown == 0 and form is not Entry.json) or (shown == 0 and limit == 0):
        await answer.out("-- No entries --\n")
    if "--show-cursor" in found and (last := known[-1] if known else journal.last) is not None:
        await answer.out(f"-- cursor: {last.fields['__CURSOR']}\n")
    return 0
