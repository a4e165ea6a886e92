"""views: frontier in a group that changes, one view after the other.

The idea. A view is a group of its own: a number, and members. One Frontier lives in exactly one
view, and all that frontier promises, it promises there. What is added is how a group gets from one
view to the next while messages flow, so that all that get there have delivered the same.

- The members of a view decide on the next one: who is in it, and the *cut*, which says of each
  origin how many of its messages are delivered before. One decision for each number, by a majority
  of floor(n/2) + 1, in two phases (consensus.py).
- A member that promises anything is *wedged*: it acknowledges and broadcasts nothing more in the
  old view, and after a restart it does not either. It stores what comes, and sends what it is asked
  for. Its promise says what it holds, and the cut is the most that any promise says.
- A member accepts a view only when it holds everything up to the cut.
- Whoever hears of a decision gets what it lacks, delivers exactly the cut, and installs the view.
  Its own messages beyond the cut it broadcasts again there, under the same numbers. Those of
  members that were removed are void.
- What is below the cut is kept until all members have installed the next view, also by members
  that were removed; then those stop.
- Before anybody promises anything, a member that is asked for a change asks who is there (CANVASS),
  which binds nobody: otherwise a group that was delivering could be stopped for good.

Why it is safe. What is delivered in a view is held by ceil(n/2) members that had not promised
then, or had before; floor(n/2) + 1 have promised; together these are n + 1, so one of them is in
both, and the message is in the cut. Two decisions for one number would have two majorities, which
have a member in common. What is decided is accepted by a majority, all of which hold the cut, so a
correct one does. The rest is frontier's: its acknowledgements count in their view alone.

Names. A name is used once in the life of a group: a member that is replaced comes back as
somebody else, such as p2+1, so that no number of its messages is ever used twice. All views are
kept, and newcomers hear of all of them: so everybody knows which names were used.

A process has parts that hold each other. ``standing`` knows which views there were; ``present`` has
the Frontier of the installed one, ``formers`` what is left of those before. ``asking``,
``proposing`` and ``voting`` lead to the next one (``consensus`` counts, ``gathering`` fetches,
``patience`` waits), and ``succession`` gets there. ``processing`` is about the application,
``ahead`` about packets that come too early. `protocol` has the events, and what follows from them.

Options are those of frontier, and some limits. docs/views.md has the rules and what is checked.
"""

from tidings.protocols.views.protocol import Views

__all__ = ["Views"]
