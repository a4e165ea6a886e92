"""The first group file that ``tidings group`` writes."""

import re
from collections.abc import Mapping


def new_group_file(
    name: str,
    addresses: Mapping[str, str],
    *,
    plain: bool = False,
    metrics: Mapping[str, str] | None = None,
) -> str:
    """The text of a first group file, with what one is likely to change as comments."""
    keys = {one: one if re.fullmatch("[A-Za-z0-9_-]+", one) else f'"{one}"' for one in addresses}
    members = "\n".join(f'{keys[one]} = "{address}"' for one, address in addresses.items())
    return FIRST_FILE.format(
        name=name,
        members=members,
        first=next(iter(keys.values())),
        tls=PLAIN if plain else CERTIFIED,
        metrics="".join(
            ["\n[metrics]                # what Prometheus and health checks ask, on loopback\n"]
            + [f'{keys[one]} = "{address}"\n' for one, address in metrics.items()]
        )
        if metrics
        else "",
    )


CERTIFIED = """\
[tls]
folder = "certs"         # each member's certificate and key, in a folder of its name
"""
PLAIN = """\
[tls]
plain = true             # anybody on this machine may speak as any member
"""
FIRST_FILE = """\
name = "{name}"
protocol = "views"       # members can be added, removed and replaced
# durable = false        # nothing on disk: a crashed member cannot return
# data = "data"          # where the logs are, relative to this file

[members]                # where each is reached; by a name or an address
{members}

{tls}{metrics}
# [listen]               # where one listens, if that is another address
# {first} = "0.0.0.0:7001"

# [retention]            # keep so much of what every member has, for group.history()
# messages = 1000000

# [trace]                # what happened, for tidings audit
# on = false
# retention_bytes = 1000000000
"""
