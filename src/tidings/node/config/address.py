"""Where a member is reached, and what may be reached only from this machine."""

import os
import re
from contextlib import suppress
from ipaddress import ip_address
from socket import gaierror
from typing import NamedTuple

LOOPBACK = "127.0.0.1"
METRICS_ARE_HERE = "metrics are for this machine only"
PLAIN_IS_HERE = "plain TCP (tls.plain) stays on this machine; members elsewhere need certificates"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    match = re.fullmatch(r"(?:\[(?P<six>[0-9a-fA-F:]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d+)", text)
    if match is None or not 0 < int(match["port"]) < 65536:
        return None
    return Address(match["six"] or match["host"], int(match["port"]))


def is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def network_words(fault: OSError) -> str:
    """What the system says of it. Those who look up names have numbers of their own."""
    if isinstance(fault, gaierror) or not fault.errno:
        return fault.strerror or str(fault)
    return os.strerror(fault.errno)
