"""A member in numbers, for Prometheus; monitor.py is where it asks for them.

Nothing is counted for it on the way of a message: the numbers are there anyway and are read when
somebody asks. Only the time that broadcasts take is written down, once for each batch of them.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from tidings.node.member import Member

BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics(Collector):
    """The metrics of one member."""

    def __init__(self, member: "Member") -> None:
        self._member = member
        self.registry = CollectorRegistry()
        self.delivery = Histogram(
            "tidings_delivery_seconds",
            "From a broadcast to its delivery here, which means that half of the members hold it.",
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        member = self._member
        status, engine, peers = member.status(), member.joined(), member.transport.peers
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        yield _one(counter, "broadcasts", "Own messages that were accepted.", status.broadcast)
        yield _one(gauge, "waiting", "Own messages not yet delivered.", status.waiting)
        yield _one(gauge, "unread", "Messages that wait for the application.", status.unread)
        yield _one(gauge, "log_bytes", "Length of the durable log.", status.log_bytes)
        yield _one(gauge, "view", "How often the group has changed.", status.view)
        yield _one(gauge, "wedged_seconds", "For how long it has been about to.", status.wedged_s)
        ready, stuck = not member.condition.obstacle(), bool(status.stuck)
        yield _one(gauge, "ready", "Whether a broadcast would be delivered now.", ready)
        yield _one(gauge, "stuck", "Whether own messages wait and none was delivered.", stuck)
        missing = {name: float(name in status.missing) for name in status.members}
        yield _by(gauge, "missing", "Whether a member has no link.", "member", missing)
        yield _one(counter, "ticks", "Times that the process was stepped.", engine.ticks)
        if engine.disk is not None:
            fullness = engine.disk.fullness(engine.process)
            yield _one(gauge, "log_full_ratio", "Needed, as a part of its limit.", fullness)
            yield _one(counter, "commits", "Writes to the durable log.", engine.disk.commits)
            yield _one(counter, "commit_seconds", "Time that they took.", engine.disk.commit_s)
        yield _by(gauge, "delivered", "Last message delivered.", "origin", status.delivered)
        yield _by(gauge, "stable", "Last message that all members hold.", "origin", status.stable)
        linked = {name: float(name in status.linked) for name in peers}
        yield _by(gauge, "link_up", "Whether there is a link.", "peer", linked)
        transport = member.transport
        yield _by(counter, "refused", "Connections refused.", "reason", dict(transport.refused))
        yield _by(gauge, "certificate_end_seconds", "When it ends.", "member", transport.ends_s())
        for way in ("sent", "received"):
            counts = {name: getattr(peer, f"bytes_{way}") for name, peer in peers.items()}
            yield _by(counter, f"bytes_{way}", f"Bytes {way}.", "peer", counts)


_Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


def _one(kind: _Family, name: str, help_text: str, value: float) -> Metric:
    return kind(f"tidings_{name}", help_text, value=value)


def _by(
    kind: _Family, name: str, help_text: str, label: str, values: Mapping[str, float]
) -> Metric:
    family = kind(f"tidings_{name}", help_text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
