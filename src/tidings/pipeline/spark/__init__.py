"""What runs on Spark: finding and starting one, handing it work, seeing how far it is.

``java`` and ``session`` start it, ``spool`` is where its workers see the rows, ``workers``,
``exchange`` and ``grouped`` have them judged by arrays, ``tasks`` says how far it is.
"""
