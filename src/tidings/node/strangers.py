"""Callers that have yet to say who they are, and how many of them there may be.

A member says who it is at once. So when there are too many strangers, the one that has been silent
longest is sent away, of the same address first: who opens thousands of connections only sends away
its own, and a member from elsewhere is heard. Each call costs a handshake, so of one address only
so many are answered in a second.

After its hello a member has one link. So there are never more connections than strangers and
members.
"""

from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from tidings.node.config import Links
from tidings.node.connection import Connection


class Strangers:
    def __init__(self, links: Links) -> None:
        self._links = links
        self._patience: dict[Connection, TimerHandle] = {}
        """The oldest first, and when we lose patience."""
        self._calls: Counter[str] = Counter()
        """How many of each network there were in this second."""
        self._second = 0

    def met(self, caller: Connection, lose_patience: Callable[[], None]) -> list[Connection]:
        """Somebody calls; those whom that is too much for, and who are sent away."""
        network = network_of(caller.where)
        if not self._is_answered(network, int(caller.loop.time())):
            return [caller]
        near = [one for one in self._patience if network_of(one.where) == network]
        too_many = _surplus(near, self._links.strangers_per_address)
        too_many = too_many or _surplus(list(self._patience), self._links.strangers)
        for one in too_many:
            self.forget(one)
        delay_s = self._links.hello_ms / 1e3
        self._patience[caller] = caller.loop.call_later(delay_s, lose_patience)
        return too_many

    def _is_answered(self, network: str, second: int) -> bool:
        if second != self._second:
            self._second = second
            self._calls.clear()
        self._calls[network] += 1
        return self._calls[network] <= self._links.calls_per_s

    def forget(self, caller: Connection) -> None:
        """It has said who it is, or is gone."""
        patience = self._patience.pop(caller, None)
        if patience is not None:
            patience.cancel()

    def dismissed(self) -> list[Connection]:
        """All of them; nobody is waited for any more."""
        everybody = list(self._patience)
        for one in everybody:
            self.forget(one)
        return everybody

    def __len__(self) -> int:
        return len(self._patience)


def _surplus(callers: list[Connection], most: int) -> list[Connection]:
    """The oldest, if there are too many for one more."""
    return callers[: max(0, len(callers) + 1 - most)]


@lru_cache(1024)
def network_of(host: str) -> str:
    """Whose address this is: of IPv6 everybody has as many as he likes."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host  # a socket without one
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((int(address) >> 64 << 64, 64)))
    return host
