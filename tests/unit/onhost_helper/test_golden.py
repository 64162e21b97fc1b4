"""Reference answers on the host: kept by engine, small, never of another one."""

from __future__ import annotations

from tests.unit.onhost_helper.host import OWNER, Host, mode

KEY = {"model": "/models/Kimi-K2.6", "tokenizer": "/models/Kimi-K2.6", "build": "0.5.23+1", "sampling": "greedy"}


def put(host: Host, key: dict[str, str], **body: object) -> dict[str, object]:
    return host.ok("put_golden", key=key, golden={"nonce": "n", **body}, text="26 prompts", owner=OWNER)


def test_answers_are_found_by_their_engine_and_by_no_other(host: Host) -> None:
    host.adopted()
    assert host.ok("golden", key=KEY)["golden"] is None
    put(host, KEY, made_by="ada@laptop")
    assert host.ok("golden", key=KEY)["golden"] == {"nonce": "n", "made_by": "ada@laptop", "key": KEY}
    for name in KEY:
        assert host.ok("golden", key={**KEY, name: "other"})["golden"] is None
    put(host, KEY, made_by="bea@desk")
    assert host.ok("golden", key=KEY)["golden"]["made_by"] == "bea@desk"
    (kept,) = host.state_file("golden").iterdir()
    assert mode(kept) == 0o644
    line = host.ok("state")["history"][-1]
    assert (line["event"], line["text"], line["owner"]["who"]) == ("golden", "26 prompts", "ada")


def test_what_is_too_large_is_refused_and_the_oldest_go(host: Host) -> None:
    host.adopted()
    _, message = host.refused("put_golden", key=KEY, golden={"text": "x" * 600_000}, text="")
    assert "golden" in message
    for number in range(18):
        put(host, {**KEY, "build": str(number)})
    assert len(list(host.state_file("golden").iterdir())) == 16
    assert host.ok("golden", key={**KEY, "build": "17"})["golden"] is not None
