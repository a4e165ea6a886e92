"""What can be written in a group file, and what holds where it says nothing."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from tidings.core.toml_file import TomlTable
from tidings.trace.schema import DIGEST, Digest

Positive = Annotated[int, Meta(ge=1, le=2**53)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Ms = Annotated[int, Meta(ge=1, le=24 * 60 * 60 * 1000)]

KIB, MIB, GIB = 1024, 1024**2, 1024**3
FRAME_ROOM = MIB
"""Room in a frame beside a longest text: a packet carries other texts, and what it says of them."""


class Limits(TomlTable, frozen=True):
    text_bytes: Positive = MIB
    """The longest text that can be broadcast."""
    frame_bytes: Positive = 2 * MIB
    """The longest frame that is accepted from a member."""
    frame_packets: Positive = 10_000
    """How many packets a frame may have."""
    packet_bytes: Annotated[int, Meta(ge=512 * KIB, le=2**53)] = 512 * KIB
    """How long a packet may be beside its texts: what is decoded of it keeps a member busy, for
    up to a third of a microsecond a byte if it is made for that."""
    batch_messages: Positive = 4_000
    """How many texts a packet may have."""
    batch_bytes: Positive = MIB
    """About how much text a member puts into one packet of its own; always one text, and never more
    than fits into a frame."""
    tick_bytes: Positive = MIB
    """About how much text one tick takes from the application, before it sees to the network
    again."""
    tick_ms: Ms = 10
    """For how long a member works on what has come in before it looks for anything else; the
    packet in hand is always finished."""
    queue_bytes: Positive = 64 * MIB
    """How much may wait to be sent to one member; beyond, the link is dropped and made again."""
    unread_messages: Positive = 100_000
    """How much may wait for the application in memory; a durable member reads the rest back from
    its disk, any other reads nothing more from the network."""
    unread_bytes: Positive = 64 * MIB
    """The same, for how long their texts are."""
    window: Positive = 10_000
    """How many of its own messages a member may have under way; beyond, ``broadcast`` waits."""
    window_bytes: Annotated[int, Meta(ge=1, le=GIB)] = 32 * MIB
    """The same, for how long their texts are. All of them may share one entry of the log, which
    can be 4 GiB."""
    memory_messages: Positive = 100_000
    """How many messages a durable member keeps in memory for those who may still ask for them;
    the others it reads back from its disk."""
    memory_bytes: Positive = 64 * MIB
    """The same, for how long their texts are."""
    log_bytes: Positive = 10 * GIB
    """How long the log may grow while a member is away; beyond, broadcasts are refused."""
    segment_bytes: Positive = 64 * MIB
    """The log is kept in files of about this size, and forgotten by whole files."""
    commit_bytes: Positive = 4 * MIB
    """About how much is written at once, if there is more; what is read back is read in such
    pieces."""
    commit_ticks: Positive = 64
    """How many ticks may wait for the commit under way before nothing more is read from the
    network."""
    page_bytes: Positive = 256 * KIB
    """A member remembers which messages stand in each so many bytes of its log: what it reads back,
    it reads in whole pages."""
    recall_bytes: Positive = MIB
    """About how much of the log is read back at a time, and how much of that waits in memory to be
    handed over."""
    snapshots: Positive = 2
    """How many newcomers a member makes a snapshot for at the same time."""
    snapshot_piece_bytes: Annotated[int, Meta(ge=1, le=MIB)] = 256 * KIB
    """How much of a snapshot is sent at once; a few pieces of it are in memory."""
    snapshot_wait_ms: Ms = 60_000
    """How long a newcomer waits for the next piece before it asks somebody else: the other program
    has to read all that was delivered before the newcomer came."""


class Retention(TomlTable, frozen=True):
    """How much is kept of what every member has: as long as any of the three asks for it."""

    messages: Count = 0
    bytes: Count = 0
    age_s: Count = 0


class Links(TomlTable, frozen=True):
    alive_ms: Ms = 1_000
    """A link on which nothing is said for so long says that it is alive."""
    silence_ms: Ms = 5_000
    """A link on which nothing is heard for so long is dead."""
    hello_ms: Ms = 5_000
    """How long the other side may take to say who it is."""
    back_off_ms_min: Ms = 50
    back_off_ms_max: Ms = 1_000
    """How long until a member that could not be reached is tried again: doubled, up to here."""
    refused_ms_max: Ms = 5 * 60 * 1000
    """The same for a member with another group file or another format, which will not agree with
    us before somebody has changed one of the two."""
    resend_bytes: Positive = 64 * MIB
    """Protocols that mend no links: how much is kept to be sent again after a reconnect. A member
    that misses more counts as crashed."""
    strangers: Positive = 64
    """How many connections may be open that have not yet said who they are."""
    strangers_per_address: Positive = 16
    """The same for those from one address, or from one network of IPv6 (/64)."""
    newcomers: Positive = 8
    """How many may be linked that are no members: newcomers, and members that were removed."""
    calls_per_s: Positive = 100
    """How many of one address are answered in a second; each costs a handshake."""
    hello_bytes: Annotated[int, Meta(ge=16 * KIB, le=2**53)] = 64 * KIB
    """How long a handshake may be, and then the frame in which somebody says who it is."""
    complaints: Positive = 256
    """How many reasons for having no link are remembered, so that none is logged twice."""
    complaints_per_minute: Positive = 10
    """About one member, or about all strangers together: reasons can be made up."""
    close_ms: Ms = 5_000
    """How long a member that leaves waits for what it has said to leave."""


class Tracing(TomlTable, frozen=True):
    on: bool = True
    folder: str = "trace"
    segment_bytes: Positive = 64 * MIB
    retention_bytes: Count = 0
    """How much of a member's trace is kept; beyond, its oldest segments are deleted. 0: all."""
    retention_age_s: Count = 0
    """How long a segment is kept after it was written last. 0: for ever."""
    on_failure: Literal["warn", "stop"] = "warn"
    """What a member does when its trace cannot be written: go on without, or stop."""
    retry_ms: Ms = 1_000
    """How long until it is tried again."""
    digest: Digest = DIGEST
    """What stands in it for a text: the same for the whole group, from its first start on."""
    conform: bool = False
    """Whether what the process is handed is recorded beside it, for ``tidings conform``."""
    conform_bytes: Positive = GIB
    """How much of that in one life; the rest of it is not recorded."""


class Control(TomlTable, frozen=True):
    """How much whoever asks a running member on this machine may ask (node/control)."""

    connections: Annotated[int, Meta(ge=2, le=2**53)] = 16
    """How many are answered at once; beyond, one is sent away. A command needs two for a moment:
    it looks for the member before it asks."""
    request_bytes: Annotated[int, Meta(ge=512, le=2**53)] = 16 * KIB
    """How long the head of a request may be, and its body."""
    request_ms: Ms = 5_000
    """How long a request may take to arrive, and its answer to be read."""
    health_ms: Ms = 1_500
    """How long a disk may take to answer, and as long again the loop, before ``/healthz`` says that
    the member is not healthy."""
    wedged_ms: Ms = 10_000
    """For how long the group may be about to change before ``/readyz`` says so."""


class Tls(TomlTable, frozen=True):
    """How members prove who they are."""

    folder: str = "certs"
    """Where the certificates are: each member's in a folder of its name."""
    plain: bool = False
    """Instead: anybody who reaches a port may speak as any member. On loopback only."""
    warn_days: Count = 30
    """From how many days before the end of its certificate on a member warns of it."""


class Settings(TomlTable, frozen=True):
    """What is the same in the file and once it has passed every check."""

    name: str
    protocol: str = "frontier"
    options: dict[str, Any] = {}
    durable: bool = True
    limits: Limits = Limits()
    retention: Retention = Retention()
    links: Links = Links()
    trace: Tracing = Tracing()
    control: Control = Control()


class GroupFile(Settings, frozen=True, kw_only=True):
    members: dict[str, str]
    data: str = "data"
    """Where the logs are: each member's in a folder of its name."""
    tls: Tls | None = None
    """It must be there: nobody has a plain group without having said so."""
    listen: dict[str, str] = {}
    """Where a member listens, if that is not where the others reach it."""
    metrics: dict[str, str] = {}
    """Where each member answers Prometheus; who is not listed does not."""
