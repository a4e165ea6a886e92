"""Did real members do what their protocol would have done? Their steps once more, and compared.

A process is deterministic: from what it was handed, what it wanted done follows. ``conform`` steps
through everything that the members of a run recorded (trace/steps.py), looks for the effects in
their traces and logs, and compares what members received with what others sent.

What a member does with its own program, when its disk says that something is written, and what it
never got to hear is out of reach: the guarantees are what ``tidings audit`` judges.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tidings.conform.divergence import Divergence
from tidings.conform.history import CannotTell
from tidings.conform.member import MemberReplay, MemberSteps
from tidings.conform.packets import Packets
from tidings.trace import Manifest

__all__ = ["Conformity", "Divergence", "MemberSteps", "conform"]

Progress = Callable[[str, int], None]


class Conformity(msgspec.Struct, frozen=True):
    """What was found: no divergence, and nothing unknown, is conforming."""

    manifest: Manifest
    members: dict[str, MemberSteps]
    packets: int
    """How many were received, and compared with what was sent."""
    divergences: list[Divergence]
    """The first of each member and, of packets, the first on each link."""
    unknown: list[str]
    """Why not everything could be judged, if so."""

    @property
    def conforms(self) -> bool:
        return not self.divergences and not self.unknown


def conform(
    folder: Path, manifest: Manifest, progress: Progress = lambda member, steps: None
) -> Conformity:
    """Step through all members of the run in this folder."""
    packets, divergences, members = Packets(), list[Divergence](), dict[str, MemberSteps]()
    for member in manifest.members:
        members[member] = MemberSteps()
        try:
            replay = MemberReplay(folder, manifest, member, packets, progress)
            try:
                replay.run()
            finally:
                members[member] = replay.so_far
        except CannotTell as reason:
            packets.incomplete[member] = str(reason)
        else:
            if replay.divergence is not None:
                divergences.append(replay.divergence)
                packets.incomplete[member] = ""
    for misfit in packets.misfits():
        words = f"it received {misfit.words}"
        divergences.append(Divergence(misfit.receiver, misfit.life, words, None, misfit.index))
    unknown = [reason for reason in packets.incomplete.values() if reason]
    if not any(one.rows for one in members.values()) and not unknown:
        unknown.append("nothing happened in this run")
    return Conformity(manifest, members, packets.count, divergences, unknown)
