"""Whoever reaches the metrics may read them, and that is all."""

import asyncio
from http.client import HTTPConnection
from pathlib import Path

import pytest

from real_groups import MEMORY, free_ports, go, group_file, joined, linked
from strangers import fingerprints


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_no_request_to_the_metrics_changes_anything(method: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    metrics = f'metrics.p1 = "127.0.0.1:{port}"'
    config = group_file(tmp_path, 2, *MEMORY, metrics, "options.stable_ms = 0", tls=True)

    def ask(path: str) -> int:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(method, path, body=b"broadcast=forged")
            return connection.getresponse().status
        finally:
            connection.close()

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(b"before")).stable()
            before = fingerprints(groups.values())
            paths = ("/", "/metrics", "/healthz", "/readyz", "/stop")
            answers = [await asyncio.to_thread(ask, path) for path in paths]
            assert answers == ([404, 200, 200, 200, 404] if method == "GET" else [405] * 5)
            assert fingerprints(groups.values()) == before
            assert groups["p1"].status().linked == ("p2",)

    go(scenario())
