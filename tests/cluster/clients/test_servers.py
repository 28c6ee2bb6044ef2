"""What is no Kafka broker is named before a client believes what it answers: some would end the process."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cluster.clients.servers import (
    CORRELATION,
    LARGEST,
    address_of,
    fault_of_server,
    require_brokers,
)
from rebalance_monitor.cluster.clients.trial import misnamed, require_accepted
from rebalance_monitor.cluster.errors import BrokerUnreachableError
from rebalance_monitor.config.errors import ConfigError
from tests.cluster.support.strangers import BROKER, answers, echoes, says, server, without_end

if TYPE_CHECKING:
    from tests.cluster.support.strangers import Serve

ONE = "is no Kafka broker."
NO_FRAME = "begins an answer and does not end it"


STRANGERS: dict[str, tuple[Serve, str]] = {
    "http": (says(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n"), "it says 'HTTP/1.1 400 Bad Request'."),
    "ssh": (says(b"SSH-2.0-OpenSSH_9.6\r\n"), "it says 'SSH-2.0-OpenSSH_9.6'."),
    "tls": (says(b"\x15\x03\x01\0\x02\x02\x46"), "speaks TLS, and `security.protocol` is PLAINTEXT."),
    "zeros without end": (without_end(bytes(65_536)), ONE),
    "letters without end": (without_end(b"x" * 65_536), "it says 'xxxx"),
    "empty frames": (says(bytes(4), bytes(4)), ONE),
    "a huge length": (answers(b"", 2**31 - 1), ONE),
    "a length below zero": (answers(b"", -1), ONE),
    "90 MB": (answers(b"", 90_000_000), ONE),
    "a frame of zeros": (answers(bytes(16)), ONE),
    "more than there is": (answers(struct.pack(">hBB", 0, 0xFF, 0x7F)), ONE),
    "an answer without an end": (answers(bytes(8), LARGEST), NO_FRAME),
    "its own question": (echoes, ONE),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_what_is_no_broker_is_named_by_its_first_bytes(kind: str) -> None:
    serve, sentence = STRANGERS[kind]
    with server(serve) as strange, server(answers(BROKER)) as broker:
        with pytest.raises(BrokerUnreachableError) as told:
            require_brokers([broker, strange], {})
        assert strange in told.value.what
        assert sentence in told.value.what
        assert told.value.remedy


def test_brokers_and_servers_that_are_silent_or_away_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalance_monitor.cluster.clients.servers.SNIFF_S", 0.2)
    refused = answers(struct.pack(">hihhh", 35, 1, 18, 0, 2))
    with server(answers(BROKER)) as one, server(refused) as other, server(lambda _: time.sleep(1)) as silent:
        require_brokers([one, other, silent, "127.0.0.1:1", "no-such-host.invalid:1", f"{'x' * 70}.a:1"], {})


def test_an_address_that_brokers_advertise_is_asked_once_and_a_stranger_there_each_time() -> None:
    asked: list[str] = []

    def counted(name: str, serve: Serve) -> Serve:
        return lambda link: (asked.append(name), serve(link))

    with (
        server(counted("broker", answers(BROKER))) as broker,
        server(counted("strange", answers(bytes(16)))) as strange,
    ):
        given, named = {"bootstrap.servers": "127.0.0.1:2"}, [address_of(broker), address_of(strange)]
        for _ in range(2):
            # Nothing listens at the third, which passes.
            (error,) = misnamed(given, [*named, ("127.0.0.1", 1)])
            assert error.what.endswith(f"name {strange} as one of them. What answers at {strange} {ONE}")
            assert "advertised.listeners" in error.remedy
    assert sorted(asked) == ["broker", "strange", "strange"]


def test_a_frame_of_zeros_that_makes_librdkafka_abort_is_an_error_of_ours() -> None:
    code = (
        "import sys; from rebalance_monitor.cluster.clients.trial import require_answer\n"
        "try: require_answer({'bootstrap.servers': sys.argv[1]})\n"
        "except Exception as error: print(error)"
    )
    with server(answers(bytes(60))) as strange:
        done = subprocess.run(
            [sys.executable, "-c", code, strange], capture_output=True, text=True, timeout=180, check=False
        )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"What answers at {strange} {ONE}"), done


@pytest.mark.slow
def test_doctor_names_a_server_that_answers_a_frame_of_zeros(tmp_path: Path) -> None:
    (jar := tmp_path / "a.jar").touch()
    program = Path(sys.executable).with_name("rebalance-monitor")
    with server(answers(bytes(16))) as strange:
        done = subprocess.run(
            [program, "doctor", "--bootstrap", strange, "-o", "json", "--set", f"jars=[{jar}]"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    found = [(row["check"], row["found"]) for row in json.loads(done.stdout) if row["verdict"] == "problem"]
    assert ("broker", f"What answers at {strange} {ONE}") in found, done
    assert done.returncode == ExitCode.PROBLEMS


def test_a_check_of_the_configuration_connects_to_nothing() -> None:
    asked: list[bytes] = []
    with server(lambda link: asked.append(link.recv(1_024))) as listener:
        require_accepted({"bootstrap.servers": listener})
        with pytest.raises(ConfigError, match="refuses `kafka:`"):
            require_accepted({"bootstrap.servers": listener, "metadata.max.age.ms": "0"})
        time.sleep(0.3)
    assert asked == []


def test_the_request_is_one_that_every_broker_answers() -> None:
    asked: list[bytes] = []
    with server(lambda link: asked.append(link.recv(1_024))) as listener:
        require_brokers([listener], {})
    size, key, version, correlation, length = struct.unpack_from(">ihhih", asked[0])
    assert (size, key, version, correlation) == (len(asked[0]) - 4, 18, 3, CORRELATION)
    assert asked[0][14:] == b"rebalance-monitor" + b"\0" + b"\x12rebalance-monitor" + b"\x021" + b"\0"
    assert length == len("rebalance-monitor")


def test_a_name_that_no_name_service_can_have_is_a_name_that_cannot_be_resolved() -> None:
    cause = fault_of_server(f"{'x' * 70}.example:9092", {})
    assert cause is not None
    assert "cannot be resolved" in cause.what
