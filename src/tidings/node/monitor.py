"""What monitoring asks of a member, over HTTP, on an address of its own on loopback.

request | answer
---|---
``GET /metrics`` | numbers for Prometheus (metrics.py)
``GET /healthz`` | 200 while the loop turns and the disk answers
``GET /readyz`` | 200 while something that it broadcast would be delivered

Otherwise it is 503, with the reason in one line. The server has threads of its own, so that it
answers even if the loop does not; everything else is asked in the loop, where nothing changes
meanwhile.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from http import HTTPStatus
from socket import AF_INET, AF_INET6
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client.exposition import choose_encoder

from tidings.core import EnvironmentMissing
from tidings.node.config import Address
from tidings.node.metrics import Metrics

if TYPE_CHECKING:
    from tidings.node.member import Member

PLAIN = "text/plain; charset=utf-8"
LOOK_S = 0.5
"""How often the server looks whether it is to end."""


class Monitor:
    def __init__(self, member: "Member") -> None:
        self.metrics = Metrics(member)
        self._member = member
        self._condition = member.condition
        self._patience_s = 2 * member.config.control.health_ms / 1e3
        """The disk may take half of it."""
        self._loop = asyncio.get_running_loop()
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def listen(self, address: Address) -> None:
        kind = _Server6 if ":" in address.host else _Server
        try:
            server = kind(address, _Quiet)
        except OSError as fault:
            raise EnvironmentMissing(f"no metrics on {address}: {fault.strerror}") from None
        server.set_app(self._app)
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(LOOK_S,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Takes as long as the server looks away; the second time none."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.shutdown()
            server.server_close()
            self._thread.join()

    # --- in a thread of the server

    def _app(self, request: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        code, kind, text = self._answer(request)
        head = [("Content-Type", kind), ("Content-Length", str(len(text)))]
        respond(f"{code.value} {code.phrase}", head)
        return [] if request["REQUEST_METHOD"] == "HEAD" else [text]

    def _answer(self, request: WSGIEnvironment) -> tuple[HTTPStatus, str, bytes]:
        path = request["PATH_INFO"]
        if request["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _line(HTTPStatus.METHOD_NOT_ALLOWED, "only to be asked")
        questions = {"/metrics": None, "/healthz": self._ailment, "/readyz": self._obstacle}
        if path not in questions:
            words = f"there is no {path[:40]}; there are {', '.join(questions)}"
            return _line(HTTPStatus.NOT_FOUND, words)
        try:
            question = questions[path]
            if question is None:
                encode, kind = choose_encoder(request.get("HTTP_ACCEPT", ""))
                return HTTPStatus.OK, kind, self._in_loop(lambda: self._encoded(encode))
            reason = self._in_loop(question)
        except TimeoutError:
            reason = f"{self._member.name} has not answered for {self._patience_s:g} s"
        except RuntimeError:
            reason = f"{self._member.name} has left"
        if reason:
            return _line(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        return _line(HTTPStatus.OK, "ok")

    def _in_loop(self, question: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        asked = question()
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, self._loop)
        except RuntimeError:
            asked.close()
            raise
        try:
            return answer.result(self._patience_s)
        except TimeoutError:
            answer.cancel()
            raise

    # --- in the loop

    async def _encoded(self, encode: Callable[[Any], bytes]) -> bytes:
        return encode(self.metrics.registry)

    async def _ailment(self) -> str:
        return await self._condition.ailment()

    async def _obstacle(self) -> str:
        wedged_s = self._member.config.control.wedged_ms / 1e3
        return await self._condition.ailment() or self._condition.obstacle(wedged_s)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    address_family = AF_INET


class _Server6(_Server):
    address_family = AF_INET6


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        pass


def _line(code: HTTPStatus, words: str) -> tuple[HTTPStatus, str, bytes]:
    return code, PLAIN, f"{words}\n".encode(errors="replace")
