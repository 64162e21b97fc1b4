from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddtune.config.address import Address, parse
from ddtune.config.errors import ConfigError
from ddtune.host.target import Target


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("b300", Address("b300")),
        ("b300:sglang-k26", Address("b300", unit="sglang-k26.service")),
        ("b300:sglang@2.service", Address("b300", unit="sglang@2.service")),
        ("root@b300.lab:2222", Address("b300.lab", "root", 2222)),
        ("root@b300.lab:2222:sglang", Address("b300.lab", "root", 2222, "sglang.service")),
        ("[::1]:2222", Address("::1", None, 2222)),
        ("me@[fe80::1%eth0]:2222:a", Address("fe80::1%eth0", "me", 2222, "a.service")),
        ("fe80::1%eth0", Address("fe80::1%eth0")),
        ("::1", Address("::1")),
    ],
)
def test_takes_addresses_apart(text: str, address: Address) -> None:
    assert parse(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "-oProxyCommand=x", "a b", "a:0", "a:65536", "a:22:", "a:", "a:22:b:c", "[::1", "[nope]:22", "@a", "a@"),
        *("$x@a", "a\\b@c", "-x@a", "a@-x", "a\n", "a:-x", "a:b c", "a;b", "[-x]"),
    ],
)
def test_refuses_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=30) | st.text("ab01.-_+%:@[]$\\", max_size=12))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse(text)
    except ConfigError:
        return
    assert not address.host.startswith("-")
    assert not any(sign.isspace() for sign in address.host)
    # What was taken here is not refused only when it is logged in to.
    target = Target.parse(address.host, port=address.port, user=address.user)
    assert (target.host, target.user) == (address.host, address.user)
