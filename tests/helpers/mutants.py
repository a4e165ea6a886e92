"""Mutants of the node: each forgets one rule, and a named test notices.

A mutant changes a few names of ``tidings.node`` and nothing else. ``CAUGHT`` says which test fails
under it, and what that test complains about: failing for any other reason does not count.

    python tests/helpers/mutants.py            tries all of them
    python tests/helpers/mutants.py NAME ...   these
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import real_groups
from tidings.core import Recall, Recalled, Span
from tidings.disk import files, frames
from tidings.node import member, wire
from tidings.node.connection import Connection, Peer
from tidings.node.disk import Disk
from tidings.node.engine import Engine
from tidings.node.ledger import Receipt
from tidings.node.log import DurableLog, Identity, reader, segments, writer
from tidings.node.member import Member
from tidings.node.reading import Reading
from tidings.node.tick import Tick
from tidings.node.transport import Transport
from tidings.node.unread import Unread

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
HERE = Path(__file__).parent
TESTS = HERE.parent / "node"
QUIETLY = ("-q", "--override-ini", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist")
DEADLINE_S = 5
"""Of a test that waits for what a mutant never does."""
HANGS = "TimeoutError"
"""What such a test complains about."""


def nothing(*_: Any, **__: Any) -> None:
    pass


# --- the log


def forgotten_sync(patch: Patch) -> None:
    """A commit returns when the kernel has it, and the disk perhaps not."""
    commit = DurableLog.commit

    def unsynced(log: DurableLog, *what: Any, **more: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(os, "fdatasync", nothing)
            commit(log, *what, **more)

    patch.setattr(DurableLog, "commit", unsynced)


def failed_write_unnoticed(patch: Patch) -> None:
    """A full disk takes nothing, and the commit returns all the same."""
    patch.setattr(writer, "explained", lambda *_: suppress(OSError))


def torn_end_left(patch: Patch) -> None:
    """What a kill broke off stays in the file."""
    patch.setattr(reader, "rewrite", nothing)


def damage_mistaken_for_a_torn_end(patch: Patch) -> None:
    """Whatever does not match its check is cut off."""
    patch.setattr(frames.FrameFile, "is_torn", lambda *_: True)


def lock_not_acquired(patch: Patch) -> None:
    patch.setattr(files, "_own", nothing)


def name_not_synced(patch: Patch) -> None:
    """An old segment is deleted before the name of the new one is on disk."""
    patch.setattr(writer, "sync", nothing)


def needed_segment_deleted(patch: Patch) -> None:
    patch.setattr(segments.Segment, "is_needless", lambda *_: True)


def life_not_counted(patch: Patch) -> None:
    """A life numbers its packets as the one before did."""
    begin = DurableLog.__init__

    def first_life(log: DurableLog, *what: Any) -> None:
        begin(log, *what)
        log.identity = Identity(log.identity.incarnation, 0)

    patch.setattr(DurableLog, "__init__", first_life)


def delivered_cursor_not_written(patch: Patch) -> None:
    commit = DurableLog.commit

    def without(log: DurableLog, *what: Any, **more: Any) -> None:
        commit(log, *what[:4], **{**more, "delivered": {}})

    patch.setattr(DurableLog, "commit", without)


# --- the order of a tick


def acknowledged_before_the_commit(patch: Patch) -> None:
    add = Disk.add

    def early(disk: Disk, tick: Tick, *what: Any) -> None:
        disk._finish([tick])
        tick.frames, tick.after, block, tick.block = [], [], tick.block, b""
        add(disk, tick, *what)
        tick.block = block

    patch.setattr(Disk, "add", early)


def sent_before_the_trace(patch: Patch) -> None:
    finish = Engine._finish

    def early(engine: Engine, ticks: Sequence[Tick]) -> bool:
        for tick in ticks:
            for frame in tick.frames:
                engine.transport.send(*frame)
            tick.frames = []
        return finish(engine, ticks)

    patch.setattr(Engine, "_finish", early)


def back_pressure_ignored(patch: Patch) -> None:
    """The network is read however little the program reads."""
    patch.setattr(Engine, "balance", nothing)


def read_again_for_every_question(patch: Patch) -> None:
    """Who asks a hundred times has the disk read a hundred times."""

    async def read(engine: Engine, wanted: Recall) -> None:
        assert engine.disk is not None
        most = engine.config.limits.recall_bytes
        records = await engine.disk.recall(*wanted.first, wanted.last, most)
        engine.post(Recalled(wanted.peer, wanted.first, wanted.last, records))

    def want(engine: Engine, wanted: Recall) -> None:
        engine.tasks.create_task(read(engine, wanted))

    patch.setattr(Engine, "_want", want)


def cut_off_when_leaving(patch: Patch) -> None:
    """What waits to be sent is dropped with the connection."""

    async def close(transport: Transport) -> None:
        transport._stop_calling()
        for peer in transport.peers.values():
            if peer.link is not None:
                peer.link.transport.abort()

    patch.setattr(Transport, "close", close)


# --- what a program sees


def receipt_too_early(patch: Patch) -> None:
    """Delivered, says the receipt, when the process has only taken the text."""
    accepted = Member.accepted

    def confident(member: Member, spans: Sequence[Span]) -> None:
        accepted(member, spans)
        member.own.delivered.advance(member.own.accepted)

    patch.setattr(Member, "accepted", confident)


def stable_when_delivered(patch: Patch) -> None:
    patch.setattr(Receipt, "stable", Receipt.delivered)


def reused_number(patch: Patch) -> None:
    """A program is told to go on from its last delivered message, not from its last one."""
    patch.setattr(member, "last_of", lambda name, *what: what[-1].delivered.get(name, 0))


def replay_skipped(patch: Patch) -> None:
    patch.setattr(Member, "replayed", nothing)


def replay_not_marked(patch: Patch) -> None:
    """What comes again looks like what is new."""
    begin = Unread.begin

    def forgetful(unread: Unread, delivered: Mapping[str, int]) -> None:
        begin(unread, delivered)
        unread._before = {}

    patch.setattr(Unread, "begin", forgetful)


def processed_cursor_not_written(patch: Patch) -> None:
    patch.setattr(Member, "newly_processed", nothing)


def second_reader_allowed(patch: Patch) -> None:
    patch.setattr(Reading, "_refuse_a_second_reader", nothing)


# --- the wire


def frame_limit_ignored(patch: Patch) -> None:
    patch.setattr(wire.FrameReader, "_check", nothing)


def hello_not_compared(patch: Patch) -> None:
    patch.setattr(wire.Hello, "quarrel", lambda *_: "")


def packet_not_checked(patch: Patch) -> None:
    patch.setattr(wire, "fault_of", lambda *_: "")


def resend_forgotten(patch: Patch) -> None:
    patch.setattr(Peer, "keep", nothing)


def resent_accepted_twice(patch: Patch) -> None:
    """What had come before the connection broke counts once more."""
    take = Transport.packets

    def forgetful(transport: Transport, connection: Connection, frame: wire.Frame) -> None:
        if connection.peer is not None:
            connection.peer.received = 0
        take(transport, connection, frame)

    patch.setattr(Transport, "packets", forgetful)


def peer_obeyed(patch: Patch) -> None:
    """Whoever is linked may cast a member out, though its protocol decides that by itself."""
    bye = Transport.bye

    def obedient(transport: Transport, connection: Connection, what: wire.Bye) -> None:
        if what.why in wire.CAST_OUT:
            transport._holder.cast_out(what.why.name)
        bye(transport, connection, what)

    patch.setattr(Transport, "bye", obedient)


def living_link_replaced(patch: Patch) -> None:
    """Whoever calls under a member's name takes its link, though that one lives."""
    patch.setattr(Transport, "_has_another", lambda *_: False)


class Caught(NamedTuple):
    by: str
    """The test, from the folder of the node's tests on."""
    complaint: str
    """What it says."""


LOG = "test_durable_log.py::test_"
GROUP = "test_group.py::test_"
HOSTILE = "test_hostile.py::test_"
KILL = "test_kill.py::test_"
TRANSPORT = "test_transport.py::test_"
WAITING = "test_waiting.py::test_"
WIRE = "test_wire.py::test_"

CAUGHT: dict[Mutant, Caught] = {
    forgotten_sync: Caught(LOG + "every_commit_is_synced", "assert [] == ['fdatasync"),
    failed_write_unnoticed: Caught(
        LOG + "a_full_disk_is_reported_and_what_was_committed_stays", "DID NOT RAISE"
    ),
    torn_end_left: Caught(
        LOG + "cut_off_at_any_byte_it_holds_every_whole_commit_and_goes_on", "st_size"
    ),
    damage_mistaken_for_a_torn_end: Caught(
        LOG + "a_hole_before_the_last_entry_is_damage", "DID NOT RAISE"
    ),
    lock_not_acquired: Caught(LOG + "one_log_has_one_writer", "DID NOT RAISE"),
    name_not_synced: Caught(
        LOG + "a_segment_is_on_disk_with_its_name_before_an_older_one_is_deleted", "!= 'fsync .'"
    ),
    needed_segment_deleted: Caught(
        LOG + "segments_are_forgotten_whole_and_in_order", "== '00000002.log'"
    ),
    life_not_counted: Caught(
        LOG + "every_life_has_the_same_identity_and_a_number_of_its_own", "life=0"
    ),
    delivered_cursor_not_written: Caught(
        LOG + "what_was_delivered_is_known_in_every_life_although_its_segment_is_gone",
        "assert {} == {'p1': 1}",
    ),
    acknowledged_before_the_commit: Caught(
        KILL + "data_and_acknowledgements_leave_when_they_are_on_disk_and_in_the_trace",
        "and on disk is",
    ),
    sent_before_the_trace: Caught(
        KILL + "data_and_acknowledgements_leave_when_they_are_on_disk_and_in_the_trace",
        "is not in the trace",
    ),
    back_pressure_ignored: Caught(
        GROUP + "who_does_not_read_loses_nothing[False]", "assert 2000 < 1000"
    ),
    read_again_for_every_question: Caught(
        HOSTILE + "for_who_asks_again_and_again_the_disk_is_read_once", "more item"
    ),
    cut_off_when_leaving: Caught(GROUP + "leaving_leaves_nothing_unsent", HANGS),
    receipt_too_early: Caught(
        WAITING + "why_without_a_name_is_about_the_oldest_of_our_own", "assert '' == 'p1#2 waits"
    ),
    stable_when_delivered: Caught(
        GROUP + "half_of_the_members_are_enough_and_stability_waits_for_the_last", "assert not True"
    ),
    reused_number: Caught(
        WAITING + "a_program_that_was_killed_learns_the_number_of_its_last_message",
        "the log is older than its trace: p1 has broadcast p1#2",
    ),
    replay_skipped: Caught(GROUP + "a_member_that_comes_back_goes_on_where_it_stopped", HANGS),
    replay_not_marked: Caught(
        GROUP + "a_member_that_comes_back_goes_on_where_it_stopped", "assert Message("
    ),
    processed_cursor_not_written: Caught(
        GROUP + "what_was_processed_is_not_handed_over_again", "index 0 diff: Replayed"
    ),
    second_reader_allowed: Caught(GROUP + "there_is_one_reader_at_a_time", HANGS),
    frame_limit_ignored: Caught(
        WIRE + "a_stranger_is_refused_before_anything_of_it_is_kept", "DID NOT RAISE"
    ),
    hello_not_compared: Caught(WIRE + "two_that_mean_different_groups_do_not_talk", "assert False"),
    packet_not_checked: Caught(WIRE + "a_packet_for_another_group_is_refused", "DID NOT RAISE"),
    resend_forgotten: Caught(
        TRANSPORT + "what_was_sent_before_the_link_came_up_is_sent_when_it_does", HANGS
    ),
    resent_accepted_twice: Caught(TRANSPORT + "what_was_sent_again_is_heard_once", "2 more items"),
    living_link_replaced: Caught(
        TRANSPORT + "while_we_do_not_read_from_a_link_no_other_process_takes_it", HANGS
    ),
    peer_obeyed: Caught(
        HOSTILE + "where_members_decide_by_themselves_who_goes_on_nobody_can_cast_them_out",
        "Halted: ",
    ),
}


class Noted:
    """What failed, as pytest tells its plugins."""

    def __init__(self) -> None:
        self.ran = 0
        self.complaints: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call"
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.complaints.append(crash.message if crash is not None else report.longreprtext)


def missed(mutant: Mutant) -> str:
    """Run the test that notices; why it does not, if so."""
    by, complaint = CAUGHT[mutant]
    noted = Noted()
    with Patch.context() as patch, redirect_stdout(StringIO()):
        if complaint == HANGS:
            patch.setattr(real_groups, "DEADLINE_S", DEADLINE_S)
        mutant(patch)
        pytest.main([*QUIETLY, str(TESTS / by)], plugins=[noted])
    if not noted.ran:
        return f"there is no {by}"
    if not noted.complaints:
        return f"{by} passes"
    if not any(complaint in one for one in noted.complaints):
        return f"{by} fails for another reason: {noted.complaints[0]}"
    return ""


def main(words: Sequence[str]) -> int:
    by_name = {mutant.__name__: mutant for mutant in CAUGHT}
    status = 0
    for name in words or by_name:
        if complaint := missed(by_name[name]):
            print(f"{name}: {complaint}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
