"""What runs on Spark: finding and starting one, handing it work, seeing how far it is.

``java`` and ``session`` start it, ``spool`` is where its workers see the rows, ``plan`` decides
which runs are judged at once, ``workers`` and ``grouped`` have them judged by arrays, ``progress``
says how far it is.
"""
