"""frontier: acknowledgements are vectors, a text travels once, and what is missing is fetched.

The idea. An origin sends a message to all and nobody passes it on. A member that holds it says so
like this: "I hold everything of p1 up to 17", which acknowledges any number of messages at once. A
message is *safe* when Q = ceil(n/2) members are known to hold it and *stable* when all are. Safe
messages are delivered, in causal order; stable ones are forgotten. A member that hears that
another holds what it lacks waits a little, then asks for it: that replaces all relaying.

Q holders include a correct one, so what is safe cannot be lost. This is all that safety rests
on; timers, repetitions and questions only bring it about.

Two modes, one for the whole group, by the option ``mode``; ``auto`` takes the first up to n = 7.
- ``all``: holders acknowledge to everybody. Two delays, the fewest possible, and n(n-1) packets
  for a lone broadcast; under load one packet acknowledges many messages, or rides on the next.
- ``origin``: holders acknowledge to the origin, which informs everybody of what is safe and
  stable. Three delays, 3(n-1) packets. In case the origin dies, a holder that does not hear of
  stability in time asks everybody (ASKING).

Why the guarantees hold. With ``held``, ``known``, ``safe``, ``stable``, ``delivered`` per origin:
- known[r] <= what r holds: r acknowledges only what is on its disk, and never holds less again.
- safe = k means that Q members hold k messages, stable = k that all do. Both are facts, so they
  may be passed on; late, repeated and reordered packets change nothing.
- No Duplication, No Creation: a message is delivered only as its origin's next one, with the text
  that its origin wrote.
- Causal Order: a message names what its origin had delivered since its previous one, and is
  delivered after both.
- Validity and Uniform Agreement, ``all``: what is safe has a correct holder; everybody hears from
  it, fetches the message and acknowledges it to everybody in turn; so everybody learns that all
  correct members, which are at least Q, hold it.
- The same, ``origin``: if the origin lives, it collects and informs. Otherwise each holder asks
  everybody, unless it has heard that all hold what it holds, but for some; then it asks those
  (``owed``: a debt only grows, and ends when it is paid or the message is stable). A member that
  is asked either knows that it is safe and says so, or remembers the question (``heard``) and will
  itself ask everybody as soon as it holds as much, whatever it hears until then. So the asker gets
  one answer, or hears from every correct member.

On links that lose, a member sends its STATE, less and less often, to each peer that is not known
to hold exactly the same, and a STATE is answered with what its sender lacks. The same STATE is
exchanged when a link comes up, after a cut or a restart. When everybody knows everything, there
is nothing to send.

Recovery. A step writes first (Persist) and sends after. A process's own messages are on disk
before they leave, others' before they are acknowledged, and ``delivered`` before anything is
handed over; so a restart repeats and forgets nothing. With ``until_processed``, the application
says what it has processed, and after a restart it is handed the rest again (Replay). A member that
comes back without its disk is refused.

Options: ``batch_ms``, in mode all the time between two vectors (the first goes at once; -1: one
millisecond per member); ``stable_ms``, in mode all at n = 3 and 4, how long acknowledgements wait
that only tell what is stable; ``window``, how many messages of a process may be unsafe;
``log_limit``, how many messages may be kept before broadcasts are refused; ``memory`` and
``memory_bytes``, how many and how much may be kept in memory before what is delivered is left to
the disk alone (0: any number); ``early`` and ``early_bytes``, how many messages of one origin, and
how many bytes in all, may wait for a predecessor; ``push`` and ``push_bytes``, how many messages
and about how much of them answer one request; ``marks`` and ``block``, how many digests of each
origin are kept, and of how many messages each is made; ``strict``, whether to wait for more answers
after a restart; ``until_processed``, whether messages are kept until the application has processed
them.

A process has parts that hold each other: `protocol` has the events, and each other file is one
part. docs/frontier.md has the rules one by one, and where we differ from their first description.
"""

from tidings.protocols.frontier.protocol import Frontier

__all__ = ["Frontier"]
