"""The audit while the group runs: verdicts on what has been read so far, within seconds.

The heart knows neither Spark nor a clock: ``judge`` takes pieces of histories in any order and says
what they violate. It keeps for each pair of members how far the one has got through the history of
the other, which is O(n^2), and a window of rows that somebody still has to get through
(``window``). What does not fit there is read again from the source when it is needed (``rows``), or
stays open elsewhere (``strays``). ``reader`` compares one member with all histories, ``findings``
is what comes out, and ``views`` has the rules of groups that change.

Around it: ``pieces`` is how rows come in, ``stored`` how the state is kept without pickle,
``final`` what is owed and the verdicts; ``stream`` reads growing segments for Spark, ``running``
judges each batch of a streaming query, and ``status`` is what people look at.
"""
