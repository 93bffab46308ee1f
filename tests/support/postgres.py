"""A PostgreSQL server of the tests' own, from the programs of Debian's package."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "of-the-tests"
_OWNER = "postgres"  # the server refuses to run as root


@dataclass(frozen=True)
class Server:
    """A server on this machine.

    Attributes:
        port: on 127.0.0.1.
        folder: of its programs.
        data: its files.
        identity: what starts its programs as another user than root.
    """

    port: int
    folder: Path
    data: Path
    identity: dict[str, Any]

    def url(self, database: str, password: str = PASSWORD) -> str:
        return f"postgresql://{_OWNER}:{password}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """Make a database; its URL."""
        self.sql(f'CREATE DATABASE "{database}"')
        return self.url(database)

    def sql(self, command: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(command)

    def control(self, *arguments: str) -> None:
        """``pg_ctl``; waits until it is done."""
        options = f"-F -k {self.data} -h 127.0.0.1 -p {self.port}"
        command = [self.folder / "pg_ctl", "-D", self.data, "-w", "-o", options]
        command += ["-l", self.data / "log", *arguments]
        subprocess.run(
            command, check=True, cwd=self.data, stdout=subprocess.DEVNULL, **self.identity
        )


def programs() -> Path:
    """The folder of ``initdb``; skips the test where there is none."""
    pytest.importorskip("sqlalchemy", reason="the extra db")
    pytest.importorskip("psycopg", reason="the extra db")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    return found[-1].parent


@contextmanager
def running_server() -> Iterator[Server]:
    """A new server, gone after the block; skips the test where there is none."""
    folder = programs()
    with tempfile.TemporaryDirectory(prefix="autosched-pg-") as text:
        data = Path(text) / "data"
        data.mkdir()
        identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            try:
                owner = pwd.getpwnam(_OWNER)
            except KeyError:
                pytest.skip(f"PostgreSQL does not run as root, and there is no user {_OWNER}")
            os.chmod(text, 0o755)
            os.chown(data, owner.pw_uid, owner.pw_gid)
            identity = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        secret = Path(text) / "password"
        secret.write_text(PASSWORD)
        command = [folder / "initdb", "-D", data, "-U", _OWNER, "--no-sync", "-A", "scram-sha-256"]
        subprocess.run(
            [*command, f"--pwfile={secret}", "--no-locale", "-E", "UTF8"],
            check=True, cwd=data, stdout=subprocess.DEVNULL, **identity,
        )  # fmt: skip
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = Server(port, folder, data, identity)
        server.control("start")
        try:
            yield server
        finally:
            server.control("stop", "-m", "immediate")
