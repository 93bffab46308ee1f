"""What a database says went wrong, in one line that tells what to do; never with a password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from autosched.records.errors import RecordError

# What the messages of SQLite, PostgreSQL and its client contain, what it means, and what to do.
_KNOWN: Final = (
    ("database is locked", "another process keeps it locked",
     "wait for that process, or raise the time to wait: ?timeout=SECONDS"),
    ("lock timeout", "another process keeps it locked", "wait for that process, or end it"),
    ("disk is full", "the disk is full", "free some space; records already in it are kept"),
    ("no space left", "the disk is full", "free some space; records already in it are kept"),
    ("disk i/o error", "the disk does not take it",
     "look at the disk; records already in it are kept"),
    ("readonly database", "it is read-only", "ask for the right to write, or name another store"),
    ("read-only transaction", "it is read-only", "name the server that takes writes"),
    ("permission denied", "this user has no right to", "ask for the right, or name another user"),
    ("not a database", "this is no database", "name a store, or a new file"),
    ("malformed", "the database is damaged",
     "recover what is left with the database's own tools, such as `sqlite3 FILE .recover`"),
    ("unable to open database file", "the file cannot be opened",
     "look at the folder: it must exist, and a database needs the right to write to it"),
    ("password authentication failed", "the server refuses the user or the password",
     "look at both; a password may stand in ~/.pgpass, too"),
    ("no password supplied", "the server wants a password",
     "give it in the URL, or in ~/.pgpass"),
    ("does not exist", "the server has no such database or user",
     "create it first: `createdb NAME`"),
    ("too many", "the server takes no more connections", "try again later"),
    ("connection refused", "the server does not answer", "look at host and port, and start it"),
    ("timeout expired", "the server does not answer", "look at host and port"),
    ("could not translate host name", "there is no such host", "look at the URL"),
    ("failed to resolve host", "there is no such host", "look at the URL"),
    ("no such file or directory", "the server does not answer", "look at host and port"),
    ("connection", "the connection to the server was lost", "look at the server, and go on"),
)  # fmt: skip


@contextmanager
def told_as_records(what: str, where: str) -> Iterator[None]:
    """Errors of the database become one RecordError.

    Args:
        what: what cannot be done: "cannot be read".
        where: the store, without its password.

    Raises:
        RecordError: the database, or the folder that it is in, refused.
    """
    try:
        yield
    except SQLAlchemyError as error:
        # Not chained: its text holds statements and their values, thousands of them.
        raise store_error(error, what, where) from None
    except OSError as error:  # of the folder that a file is in
        raise RecordError(f"the store {what}: {error.strerror or error}", where) from error


def store_error(error: SQLAlchemyError, what: str, where: str) -> RecordError:
    """One line for an error of the database."""
    said = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
    for mark, meaning, hint in _KNOWN:
        if mark in said.lower() and _OPTION not in said.lower():
            return RecordError(f"the store {what}: {meaning}", where, hint)
    return RecordError(f"the store {what}: {said[:_LONGEST]}", where)


_LONGEST: Final = 200
_OPTION: Final = "invalid"  # an option, a port, a page: the message says what, and of which value
