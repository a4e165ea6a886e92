"""Where messages spread, for real: a group of members on a network, safe against kill -9.

Read in this order: ``config`` (who is in the group), ``wire`` (what crosses the network), ``log``
(what survives), ``connection`` and ``transport`` (links), ``engine`` (holds the process),
``member`` (the member at work), ``group`` (what a program sees). asyncio lives here and nowhere
below.
"""
