"""One HTTP/1.1 request and its answer on a stream, and nothing that an operator does not need.

A connection has one request. No dependency has a server for this: prometheus_client's is
``http.server`` of the standard library, which needs a thread and knows no limits, while a member
lives in a loop. So this reads the little that is asked for, strictly: a request line, headers each
once, a body of a given length. Whatever else is possible in HTTP is refused.
"""

import re
from asyncio import StreamReader, StreamWriter
from asyncio.exceptions import LimitOverrunError
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

_LINE = re.compile(r"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.1")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ \t!-~]*)")
_LENGTH = re.compile(r"[0-9]{1,15}")


class HttpFault(Exception):  # noqa: N818 - reads as what happened
    """What is wrong with a request, for whoever sent it."""

    def __init__(self, code: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.code = code


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: bytes


async def read_request(reader: StreamReader, most_bytes: int) -> Request:
    """The request, whose head and whose body are each at most so long.

    EOFError if the other side ends before it has asked. ``reader`` must have the same limit.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except LimitOverrunError:
        code = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise HttpFault(code, f"the head is longer than {most_bytes:,} bytes") from None
    method, target, headers = _read_head(head)
    length = _length_of(method, headers)
    if length > most_bytes:
        code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        raise HttpFault(code, f"a body of {length:,} bytes; {most_bytes:,} is the limit")
    path, _, query = target.partition("?")
    return Request(method, path, _read_query(query), await reader.readexactly(length))


def _read_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *rest = head[:-4].decode("latin-1").split("\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise HttpFault(HTTPStatus.BAD_REQUEST, "not a request of HTTP/1.1")
    headers: dict[str, str] = {}
    for one in rest:
        header = _HEADER.fullmatch(one)
        if header is None or header[1].lower() in headers:
            raise HttpFault(HTTPStatus.BAD_REQUEST, f"bad header {one[:40]!r}")
        headers[header[1].lower()] = header[2].rstrip(" \t")
    if "host" not in headers:
        raise HttpFault(HTTPStatus.BAD_REQUEST, "HTTP/1.1 asks for a Host header")
    return line[1], line[2], headers


def _length_of(method: str, headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise HttpFault(HTTPStatus.NOT_IMPLEMENTED, "send the body with a Content-Length")
    given = headers.get("content-length", "0")
    if method == "POST" and "content-length" not in headers:
        raise HttpFault(HTTPStatus.LENGTH_REQUIRED, "POST needs a Content-Length")
    if _LENGTH.fullmatch(given) is None:
        raise HttpFault(HTTPStatus.BAD_REQUEST, f"bad Content-Length {given[:40]!r}")
    return int(given)


def _read_query(text: str) -> dict[str, str]:
    """A plus is a plus, which names of members may have; elsewhere it would be a space."""
    pairs = [one.partition("=") for one in text.split("&") if one]
    return {unquote(name): unquote(value) for name, _, value in pairs}


async def send_json(writer: StreamWriter, code: HTTPStatus, value: Any, *headers: str) -> None:
    body = msgspec.json.encode(value) + b"\n"
    about = ("Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
    writer.write(_head(code, about) + body)
    await writer.drain()


class Lines:
    """An answer that grows: a line of JSON for each thing that happens.

    They are chunks, so that whoever reads them can tell an end from a break.
    """

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer
        about = ("Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
        writer.write(_head(HTTPStatus.OK, about))

    def send(self, **values: Any) -> None:
        line = msgspec.json.encode(values) + b"\n"
        self._writer.write(b"%x\r\n%s\r\n" % (len(line), line))

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


def _head(code: HTTPStatus, headers: tuple[str, ...]) -> bytes:
    first = f"HTTP/1.1 {code.value} {code.phrase}"
    return "\r\n".join([first, *headers, "Connection: close", "", ""]).encode("latin-1")
