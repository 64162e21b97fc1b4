"""What the history teaches of starts."""

from __future__ import annotations

from ddtune.rollout.learned import downtime


def end(profile: str, took: float, outcome: str = "committed", back: float | None = None) -> dict:
    times = {"armed": 0.0, "swapped": 10.0, "ready": 10.0 + took}
    if back is not None:
        times |= {"rollback_begun": 500.0, "serving": 500.0 + back}
    return {"outcome": outcome, "from": {"profile": "b8-nvls"}, "to": {"profile": profile}, "times": times}


def test_the_last_three_starts_of_the_profile_count() -> None:
    history = [end("b16", 400.0), end("b16", 150.0), end("b12", 300.0), end("b16", 156.0), end("b16", 148.0)]
    found = downtime(history, "b16")
    assert found.typical_s == 150.0
    assert found.own
    assert found.text == "warm, the last 3 starts: 148 to 156 s"


def test_without_one_of_its_own_other_profiles_tell() -> None:
    found = downtime([end("b16", 150.0)], "b4")
    assert not found.own
    assert found.text == "cold, its first start on this engine may compile for minutes; the last start of others: 150 s"


def test_k9_13_a_first_start_compiles_and_later_ones_do_not() -> None:
    first = [end("b8-nvls", 150.0)]
    assert downtime(first, "b16").text.startswith("cold, ")
    again = [*first, end("b16", 840.0), end("b16", 152.0), end("b16", 150.0), end("b16", 151.0)]
    found = downtime(again, "b16")
    assert found.text.startswith("warm, ")
    assert found.typical_s == 151.0, "the start that compiled is no measure of the next one"


def test_k9_13_another_build_of_the_engine_compiles_anew() -> None:
    history = [{**end("b16", 150.0), "op": "0001-b16"}, {**end("b8-nvls", 160.0), "op": "0002-b8-nvls"}]
    envelope = [{"op": "0001-b16", "build": "0.5.17"}, {"op": "0002-b8-nvls", "build": None}]
    assert downtime(history, "b16", envelope, "0.5.17").own
    upgraded = downtime(history, "b16", envelope, "0.5.23")
    assert upgraded.text.startswith("cold, ")
    assert upgraded.typical_s == 155.0, "there is nothing nearer to go by"
    assert downtime(history, "b8-nvls", envelope, "0.5.23").own, "nobody says on which build it was"
    assert downtime([*history, {**end("b16", 300.0), "op": "0003-b16"}], "b16", envelope, "0.5.23").own


def test_a_rollback_tells_of_stable() -> None:
    history = [end("b12", 100.0, "rolled_back", back=160.0)]
    assert downtime(history, "b8-nvls").typical_s == 160.0


def test_what_never_served_tells_nothing() -> None:
    crashed = {"outcome": "rolled_back", "to": {"profile": "b12"}, "times": {"armed": 0.0, "swapped": 5.0}}
    assert (
        downtime([crashed, {"event": "adopted"}, {"event": "swapped", "times": {"swapped": 1, "ready": 9}}], "b12")
        is None
    )
    assert downtime([], "b12") is None
