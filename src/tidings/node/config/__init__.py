"""group.toml: one file for all members, every mistake in it named with its line.

    name = "chat"

    [members]
    p1 = "10.0.0.1:7001"
    p2 = "10.0.0.2:7001"
    p3 = "p3.example.org:7001"

    [tls]
    folder = "certs"

Everything else has a default (``settings``). Paths in the file are relative to the file. ``checks``
refuses what cannot be right, ``group`` is what the parts of a node see, ``first_file`` writes one.
"""

from tidings.node.config.address import (
    PLAIN_IS_HERE,
    Address,
    is_loopback,
    network_words,
    parse_address,
)
from tidings.node.config.first_file import new_group_file
from tidings.node.config.group import NO_LIMIT, Config, parse_config, read_config
from tidings.node.config.settings import (
    FRAME_ROOM,
    GIB,
    KIB,
    MIB,
    Control,
    GroupFile,
    Limits,
    Links,
    Retention,
    Tls,
    Tracing,
)

__all__ = [
    "FRAME_ROOM",
    "GIB",
    "KIB",
    "MIB",
    "NO_LIMIT",
    "PLAIN_IS_HERE",
    "Address",
    "Config",
    "Control",
    "GroupFile",
    "Limits",
    "Links",
    "Retention",
    "Tls",
    "Tracing",
    "is_loopback",
    "network_words",
    "new_group_file",
    "parse_address",
    "parse_config",
    "read_config",
]
