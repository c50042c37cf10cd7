from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from supervisors.listener import KEEPALIVE, ListenError, open_tcp_listeners, open_unix_listener


def test_listener_accepts_and_its_options_hold_for_the_connection():
    (listener,) = open_tcp_listeners("127.0.0.1", 0)
    with listener:
        assert not listener.getblocking()
        assert not listener.get_inheritable()
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        with socket.create_connection(listener.getsockname()):
            listener.setblocking(True)
            accepted = listener.accept()[0]
        with accepted:
            options = [
                accepted.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
            assert tuple(options) == KEEPALIVE
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000


def test_every_address_of_a_name_gets_the_same_port():
    listeners = open_tcp_listeners("localhost", 0)
    assert len({listener.getsockname()[1] for listener in listeners}) == 1
    for listener in listeners:
        listener.close()


def test_ipv6_listens_on_its_own():
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        (listener,) = open_tcp_listeners("::1", 0)
    except ListenError:
        pytest.skip("this machine has no IPv6 loopback")
    port = listener.getsockname()[1]
    (other,) = open_tcp_listeners("127.0.0.1", port)
    listener.close()
    other.close()


def test_port_in_use_is_one_clear_line_and_leaves_nothing_open():
    (listener,) = open_tcp_listeners("127.0.0.1", 0)
    port = listener.getsockname()[1]
    with listener, pytest.raises(ListenError) as caught:
        open_tcp_listeners("127.0.0.1", port)
    assert str(caught.value) == f"cannot listen on 127.0.0.1:{port}: address already in use"
    (again,) = open_tcp_listeners("127.0.0.1", port)  # free at once, for a service that starts again
    again.close()


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("no-such-host.invalid", 80, "cannot listen on no-such-host.invalid:80: "),
        ("127.0.0.1", 70000, "cannot listen on 127.0.0.1:70000: "),
        ("192.0.2.1", 80, "cannot listen on 192.0.2.1:80: cannot assign requested address"),
        ("2001:db8::1", 80, "cannot listen on [2001:db8::1]:80: "),
        ("a" * 70, 80, "cannot listen on "),
    ],
)
def test_addresses_that_cannot_be_listened_on(host, port, text):
    with pytest.raises(ListenError) as caught:
        open_tcp_listeners(host, port)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_unix_listener_has_its_mode_from_the_first_moment(tmp_path):
    path = str(tmp_path / "s")
    before = os.umask(0o022)
    try:
        with open_unix_listener(path) as listener:
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
            assert not listener.getblocking()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
        assert os.umask(0o022) == 0o022
        Path(path).unlink()
        with open_unix_listener(path, mode=0o660):
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o660
    finally:
        os.umask(before)


def test_dead_socket_file_is_replaced_a_living_one_is_not(tmp_path):
    path = str(tmp_path / "s")
    open_unix_listener(path).close()
    with open_unix_listener(path):
        with pytest.raises(ListenError, match="address already in use"):
            open_unix_listener(path)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)


def test_other_things_in_the_way_are_left_alone(tmp_path):
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(ListenError, match="address already in use"):
        open_unix_listener(str(path))
    assert path.read_text() == "precious"
    with pytest.raises(ListenError, match=r"cannot listen on .*: "):
        open_unix_listener(str(tmp_path / ("x" * 200)))
    with pytest.raises(ListenError, match="no such file or directory"):
        open_unix_listener(str(tmp_path / "no" / "s"))


def test_second_address_in_use_closes_the_first(monkeypatch):
    (taken,) = open_tcp_listeners("127.0.0.1", 0)
    port = taken.getsockname()[1]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: found)
    with taken, pytest.raises(ListenError, match="address already in use"):
        open_tcp_listeners("two", port)
    with socket.socket() as free:
        free.bind(("127.0.0.2", port))
