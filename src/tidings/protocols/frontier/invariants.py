"""What must be true of a frontier process among all, which only a simulator can see."""

from collections.abc import Mapping

from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log


def check(log: Log, knowledge: Knowledge, held: Mapping[str, Mapping[str, int]]) -> None:
    """``held`` is what members hold; those that have lost their disks are not in it."""
    me, members = log.me, log.members
    lost = len(members) - len(held)
    in_memory = (len(text) for texts in log.texts.values() for text in texts)
    assert log.text_bytes == sum(in_memory), f"{me} counts its texts wrong"
    for origin in members:
        safe, stable = knowledge.safe[origin], knowledge.stable[origin]
        delivered, last = log.delivered[origin], log.held[origin]
        everywhere = [counts[origin] for counts in held.values()]
        for peer in held.keys() - {me}:
            known = knowledge.held_by(peer, origin)
            assert known <= held[peer][origin], f"{me} overrates {peer}: {known}"
        holders = sum(count >= safe for count in everywhere) + lost
        assert holders >= knowledge.quorum, f"{holders} hold {origin}#{safe}, safe at {me}"
        assert stable <= min(everywhere), f"{origin}#{stable} is not stable"
        assert delivered <= min(safe, last), f"{me} delivered {origin}#{delivered}"
        kept = last + 1 - log.first_in_memory(origin)
        assert len(log.texts[origin]) == kept, f"{me} keeps too much or too little"
        assert log.forgotten[origin] == knowledge.needless(origin)
