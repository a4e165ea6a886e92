"""The operator's door of a running member: HTTP/1.1 with JSON over a Unix socket.

Read in this order: ``place`` (where the socket is, and who may use it), ``http`` (one request and
its answer), ``door`` (what can be asked), ``asking`` (the other side: what commands use).
"""
