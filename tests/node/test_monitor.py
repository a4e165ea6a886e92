"""/healthz and /readyz: what they say of a member, and why."""

import asyncio
import re
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

import tidings
from real_groups import MEMORY, free_ports, go, group_file, joined, linked, until
from tidings.node.config import Config
from tidings.node.membership import Membership

Answer = tuple[int, str]
READY: Answer = (200, "ok")


class Asking:
    """Whoever asks p1 on its port."""

    def __init__(self, folder: Path, size: int = 3, *lines: str) -> None:
        (self.port,) = free_ports(1)
        metrics = f'metrics.p1 = "127.0.0.1:{self.port}"'
        self.config: Config = group_file(folder, size, "trace.on = false", metrics, *lines)

    async def __call__(self, path: str) -> Answer:
        return await asyncio.to_thread(self.ask, path)

    def ask(self, path: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode().strip()
        finally:
            connection.close()


def test_a_newcomer_is_asked_where_it_says_and_a_member_there_instead_of_the_file(
    tmp_path: Path,
) -> None:
    asked = Asking(tmp_path, 3, 'protocol = "views"')
    named, (asked.port, other, there) = asked.port, free_ports(3)
    newcomer = {"address": f"127.0.0.1:{there}", "metrics": f"127.0.0.1:{other}"}

    async def scenario() -> None:
        async with tidings.join("p1", asked.config, metrics=asked.port):
            assert await asked("/healthz") == READY
            asked.port = other
            async with tidings.join("p4", asked.config, **newcomer):
                assert await asked("/healthz") == READY
            asked.port = named
            with pytest.raises(ConnectionRefusedError):
                await asked("/healthz")

    go(scenario())


def test_a_replacement_has_its_own_metrics_or_those_of_its_place(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, 'metrics.p2 = "127.0.0.1:9464"')
    assert str(config.with_newcomer("p2+1", "").metrics["p2+1"]) == "127.0.0.1:9464"
    own = config.with_metrics("p2+1", "9465").with_newcomer("p2+1", "")
    assert str(own.metrics["p2+1"]) == "127.0.0.1:9465"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (
            "10.0.0.1:9464",
            "metrics: 10.0.0.1:9464 is not on loopback; metrics are for this machine",
        ),
        ("9464x", "metrics: '9464x' is neither a port nor an address like 127.0.0.1:9464"),
        ("70000", "metrics: '70000' is neither a port"),
        ("p1", "metrics: {} is where p1 listens to the others"),
    ],
)
def test_metrics_are_refused_elsewhere_than_on_a_free_port_of_loopback(
    where: str, words: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 2)
    address = str(config.addresses["p1"])
    with pytest.raises(tidings.UsageError, match=re.escape(words.format(address))):
        tidings.join("p1", config, metrics=address if where == "p1" else where)


def test_a_member_is_healthy_alone_and_ready_with_half_of_the_group(tmp_path: Path) -> None:
    asked = Asking(tmp_path)

    async def scenario() -> None:
        async with joined(asked.config, "p1") as one:
            assert await asked("/healthz") == READY
            assert await asked("/readyz") == (
                503,
                "2 of 3 members must be up to deliver anything; p1 has no link to p2, p3",
            )
            async with joined(asked.config, "p2") as two:
                await linked(one | two)
                assert await asked("/readyz") == (
                    503,
                    "p1 waits for p3 to report what they hold of its messages",
                )
                async with joined(asked.config, "p3"):
                    await one["p1"].ready()
                    assert await asked("/readyz") == READY
                assert await asked("/readyz") == READY, "two of three are enough"
            await until(lambda: one["p1"].status().linked == ())
            assert (await asked("/readyz"))[0] == 503
            assert await asked("/healthz") == READY
            code, text = await asked("/metrics")
            assert code == 200
            assert {"tidings_ready 0.0", "tidings_stuck 0.0"} <= set(text.splitlines())
            assert await asked("/health") == (
                404,
                "there is no /health; there are /metrics, /healthz, /readyz",
            )

    go(scenario())


def test_a_disk_that_hangs_and_a_loop_that_stands_are_not_healthy(tmp_path: Path) -> None:
    asked = Asking(tmp_path, 1, "control.health_ms = 40")
    release = threading.Event()

    async def scenario() -> None:
        async with joined(asked.config) as groups:
            disk = groups["p1"]._member.joined().disk
            assert disk is not None
            disk._in_thread(release.wait, lambda: None)  # type: ignore[arg-type]
            hangs = (503, "the disk of p1 has not answered for 0.04 s")
            assert await asked("/healthz") == await asked("/readyz") == hangs
            release.set()
            while await asked("/healthz") != READY:
                pass
            heard: list[Answer] = []
            other = threading.Thread(target=lambda: heard.append(asked.ask("/healthz")))
            other.start()
            other.join()  # and the loop with it
            assert heard == [(503, "p1 has not answered for 0.08 s")]

    go(scenario())


def test_a_member_that_stopped_is_not_healthy_and_says_why(tmp_path: Path) -> None:
    asked = Asking(tmp_path, 1)

    async def scenario() -> None:
        group = await tidings.join("p1", asked.config)
        group._member.joined().fail(tidings.Halted("no more"))
        assert await asked("/healthz") == (503, "p1 has stopped: no more")
        with pytest.raises(tidings.Halted, match="no more"):
            await group.close()

    go(scenario())


def test_a_member_whose_log_is_full_is_not_ready(tmp_path: Path) -> None:
    asked = Asking(tmp_path, 2, "limits.log_bytes = 20000", "limits.segment_bytes = 2000")

    async def scenario() -> None:
        async with joined(asked.config, "p1", founding=True) as groups:
            with suppress(tidings.LogFull):
                while True:
                    await (await groups["p1"].broadcast(bytes(1000))).delivered()
            code, reason = await asked("/readyz")
            assert (code, reason.split(":")[0]) == (503, "the log of p1 is full")
            _, text = await asked("/metrics")
            (ratio,) = re.findall(r"^tidings_log_full_ratio (.+)$", text, re.MULTILINE)
            assert float(ratio) > 1

    go(scenario())


def test_a_newcomer_is_not_ready_before_it_is_added(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, 'protocol = "views"')
    address = f"127.0.0.1:{free_ports(1)[0]}"

    async def scenario() -> None:
        async with (
            joined(config, founding=True) as groups,
            tidings.join("p3", config, address=address) as p3,
        ):
            waits = "p3 is in no view yet: a member has to add it"
            with pytest.raises(tidings.NotReady, match=waits):
                await p3.ready(timeout=0.01)
            await groups["p1"].add("p3", address)
            await p3.ready()

    go(scenario())


def test_a_change_that_takes_long_is_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asking(tmp_path, 1, 'protocol = "views"', "control.wedged_ms = 30")

    async def scenario() -> None:
        async with joined(asked.config) as groups:
            await groups["p1"].ready()
            monkeypatch.setattr(Membership, "is_wedged", property(lambda _: True))
            begin_s = time.monotonic()
            while await asked("/readyz") == READY:
                pass
            assert time.monotonic() - begin_s >= 0.03
            about_to = "the group is about to change, and broadcasts wait"
            assert await asked("/readyz") == (503, about_to)
            with pytest.raises(tidings.NotReady, match=about_to):
                await groups["p1"].ready(timeout=0)

    go(scenario())
