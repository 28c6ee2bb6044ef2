"""The table on the page of logins says what the tests show, for each login and client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("cryptography", reason="cryptography is not installed")

from tests.cluster.support.login_page import table

ROOT = Path(__file__).parents[3]
LOGINS, OWN = "tests/cluster/logins/test_logins.py", "tests/cluster/logins/test_own_class.py"
SECURITY, OTHERS = "tests/cluster/clients/test_security.py", "tests/cluster/clients/test_other_logins.py"
# The columns after the login: what asks for them.
COLUMNS = {
    "Spark's source": "doctor",
    "admin": "doctor",
    "`doctor`": "doctor",
    "probe": "local",
    "ends": "local",
    "`watch`": "local",
    "`capture`": "local",
}
NAMES = {
    LOGINS: {
        "doctor": "test_doctor_has_nothing_to_say_and_names_the_clients",
        "local": "test_watch_capture_probe_and_ends_work",
    },
    OWN: {
        "doctor": "test_doctor_has_nothing_to_say",
        "local": "test_watch_capture_probe_and_ends_work",
    },
    SECURITY: {
        "doctor": "test_doctor_with_the_least_permissions_has_nothing_to_say",
        "local": "test_watch_capture_probe_and_ends_work_by_each_login",
    },
    OTHERS: dict.fromkeys(("doctor", "local"), "test_every_client_logs_in"),
}
# Login -> the modules that try it, with the parameter that stands for it there.
TRIED: dict[str, list[tuple[str, str]]] = {
    "SCRAM-SHA-512": [(SECURITY, "[scram]")],
    "SCRAM-SHA-256, PLAIN": [(OTHERS, "[scram256]"), (OTHERS, "[plain]")],
    "certificate: PEM": [(SECURITY, "[mutual_tls]")],
    "certificate: JKS, PKCS#12": [(OTHERS, "[jks]"), (OTHERS, "[pkcs12]")],
    "OAuth": [(LOGINS, "[oauth]")],
    "Kerberos": [(LOGINS, "[kerberos]")],
    "delegation token": [(LOGINS, "[token]")],
    "Java's classes": [(OWN, "")],
    "AWS MSK IAM": [],
}


def collected() -> set[str]:
    """The tests that pytest finds in those modules."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *NAMES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_each_mark_of_the_table_is_what_a_test_shows() -> None:
    known = collected()
    marks = {
        login: {
            column: "✓"
            if tried and all(f"{file}::{NAMES[file][by]}{way}" in known for file, way in tried)
            else "?"
            for column, by in COLUMNS.items()
        }
        for login, tried in TRIED.items()
    }
    header, *rows = table("Logins", header=True)
    assert header[1:] == list(COLUMNS)
    found = {
        row[0].replace("[", "").partition("]")[0]: dict(
            zip(COLUMNS, (cell[:1] for cell in row[1:]), strict=True)
        )
        for row in rows
    }
    assert found == marks
