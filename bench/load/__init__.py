"""One load for every system: what is broadcast, how it is counted, and who checks it.

``phases`` says what the members of a group do for some seconds, ``texts`` what they broadcast and
which deliveries are right, ``member`` is the program of one member, ``crew`` starts such programs,
leads them through phases and counts. A member may be written in any language: it answers lines on
its standard input with lines on its standard output, as ``crew`` describes.
"""
