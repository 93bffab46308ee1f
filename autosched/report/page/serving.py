"""A live page on localhost, for browsers of this machine only."""

from __future__ import annotations

import sys
from http import HTTPStatus
from http.client import HTTP_PORT
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from autosched.report.page.live import LivePage
from autosched.system.errors import OptionError

_ADDRESS: Final = "127.0.0.1"


class PageServer(ThreadingHTTPServer):
    """Answers every request for ``/`` with the page as it is then.

    Raises:
        OptionError: the port is in use, or not for this user.
    """

    daemon_threads = True

    def __init__(self, page: LivePage, port: int) -> None:
        """``port``: 0 for any that is free."""
        self.page = page
        try:
            super().__init__((_ADDRESS, port), _Answer)
        except OSError as error:
            raise OptionError(
                f"the port cannot be used: {error.strerror}",
                str(port),
                "choose another one, or 0 for any that is free",
            ) from error

    @property
    def url(self) -> str:
        return f"http://{_ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Answer(BaseHTTPRequestHandler):
    """One request."""

    server: PageServer

    def do_GET(self) -> None:
        """The page, or that the one which the browser has is the newest."""
        # A page of another site may have given its own name to this address.
        if self.headers.get("Host") not in self._names():
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        page = self.server.page.current()
        tag = f'"{page.version}"'
        if self.headers.get("If-None-Match") == tag:
            self._begin(HTTPStatus.NOT_MODIFIED, tag)
            return
        body = page.text.encode("utf-8", errors="replace")
        self._begin(HTTPStatus.OK, tag, len(body))
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal is for what the user asked for."""

    def _names(self) -> list[str]:
        """What a client of this machine calls the server; the usual port is left out."""
        port, names = self.server.server_port, (_ADDRESS, "localhost")
        return [f"{name}:{port}" for name in names] + list(names) * (port == HTTP_PORT)

    def _begin(self, status: HTTPStatus, tag: str, size: int | None = None) -> None:
        self.send_response(status)
        self.send_header("ETag", tag)
        self.send_header("Cache-Control", "no-cache")
        if size is not None:
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(size))
        self.end_headers()
