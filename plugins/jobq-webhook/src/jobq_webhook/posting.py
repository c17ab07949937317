"""One try to deliver: a POST to an address that was checked, over before its time is, with no redirect followed."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from jobq.times import format_duration
from jobq_webhook.errors import NotDelivered
from jobq_webhook.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jobq_webhook.targets import Target

BODY_LIMIT = 4096
"""Bytes of an answer that are read; the rest is left."""
TEXT_LIMIT = 200
_BROKEN = (OSError, HTTPException, HTTPError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        status: the status code.
        text: the first line of what else was said, harmless; "" of a success.
        retry_after: how long the receiver asks to wait, if it does.
    """

    status: int
    text: str = ""
    retry_after: timedelta | None = None

    @property
    def is_success(self) -> bool:
        """Whether the receiver has taken the message."""
        return 200 <= self.status < 300

    def __str__(self) -> str:
        try:
            phrase = f" {HTTPStatus(self.status).phrase}"
        except ValueError:
            phrase = ""
        hint = "; redirects are not followed" if 300 <= self.status < 400 else ""
        return f"{self.status}{phrase}{hint}" + (f": {self.text}" if self.text else "")


class Deadline:
    """The time that a try may take.

    Attributes:
        length: how long.
        passed: whether a connection was cut because it is over.
    """

    def __init__(self, length: timedelta) -> None:
        self.length, self.passed = length, False
        self._end = time.monotonic() + length.total_seconds()

    def left(self) -> float:
        """Seconds until it is over.

        Raises:
            TimeoutError: it is.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def check(self) -> None:
        """Tell a connection that was cut from one whose other end had said all it had to say.

        Raises:
            TimeoutError: it was cut.
        """
        if self.passed:
            raise TimeoutError

    @contextlib.contextmanager
    def cutting(self, sock: socket.socket) -> Iterator[None]:
        """Cut a connection when the time is over: one that sends a byte now and then is never late by itself."""
        timer = threading.Timer(self.left(), self._cut, [sock])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # it must not cut what is opened next under the same number

    def _cut(self, sock: socket.socket) -> None:
        self.passed = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # past what TLS has to say to that


def post(
    target: Target,
    addresses: Sequence[str],
    body: bytes,
    headers: Mapping[str, str],
    *,
    deadline: Deadline,
    ca_file: str | None,
) -> Answer:
    """Send a body to a target, and answer with what came back, whatever the status.

    Args:
        target: whose path, name and certificate are used.
        addresses: the checked addresses of its host; the first that takes the connection is used.
        body: the bytes, sent as they are.
        headers: what goes with them, beside `Host` and the length.
        deadline: when to give up.
        ca_file: the authorities to accept instead of the system's.

    Raises:
        NotDelivered: nobody answered, not in time, or not to be trusted.
    """
    connection, sock = None, None
    try:
        connection = _connected(target, addresses, deadline, ca_file)
        sock = connection.sock
        with deadline.cutting(sock):
            connection.request(
                "POST",
                target.path,
                body=body,
                headers={**headers, "Host": target.authority, "Connection": "close"},
                preload_content=False,
                decode_content=False,
            )
            response = connection.getresponse()
            deadline.check()  # headers that were cut look like such that came to their end
            answer = Answer(response.status, retry_after=retry_after(response.headers.get("Retry-After")))
            if answer.is_success:
                return answer
            content = b""
            with contextlib.suppress(*_BROKEN):  # the status has come, and says more
                content = response.read(BODY_LIMIT, decode_content=False)
        return Answer(answer.status, one_line(content.decode("utf-8", "replace"), TEXT_LIMIT), answer.retry_after)
    except _BROKEN as error:
        late = deadline.passed or isinstance(_cause(error), TimeoutError)
        why = f"gave no answer within {format_duration(deadline.length)}" if late else _told(_cause(error))
        raise NotDelivered(f"{target.host} {why}") from None
    finally:
        if connection is not None:
            connection.close()
        if sock is not None and (held := sock.detach()) >= 0:
            os.close(held)  # by a response that is not read to its end, or was none


def retry_after(value: str | None, *, now: datetime | None = None) -> timedelta | None:
    """The wait that the header `Retry-After` (RFC 9110, 10.2.3) asks for, by seconds or by a date; None for none."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text[:9]))
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    wait = date.replace(tzinfo=date.tzinfo or UTC) - (now or datetime.now(UTC))
    return wait if wait > timedelta() else None


def _connected(target: Target, addresses: Sequence[str], deadline: Deadline, ca_file: str | None) -> HTTPConnection:
    for tried, address in enumerate(addresses, 1):
        share = deadline.left() / (1 + len(addresses) - tried)
        connection = _connection(target, address, share, ca_file)
        try:
            connection.connect()
            connection.timeout = deadline.left()
        except (NewConnectionError, ConnectTimeoutError):
            connection.close()
            if tried == len(addresses):
                raise
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise NewConnectionError(HTTPConnection(target.host), "there is no address")


def _connection(target: Target, address: str, timeout: float, ca_file: str | None) -> HTTPConnection:
    """A connection to the address itself; TLS is told the name, and the certificate must be that name's."""
    if target.scheme == "http":
        return HTTPConnection(address, target.port, timeout=timeout)
    return HTTPSConnection(
        address,
        target.port,
        timeout=timeout,
        cert_reqs="CERT_REQUIRED",
        ca_certs=ca_file,
        server_hostname=target.host,
    )


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error.__cause__, OSError) else error


def _told(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has a certificate that is not accepted: {error.verify_message}"
    text = one_line(getattr(error, "strerror", None) or str(error), TEXT_LIMIT)
    return f"cannot be reached: {text or type(error).__name__}"
