"""One self-contained HTML page: what was found, at what price, and the runs that show it.

``model`` says what a page can show, ``render`` makes the page of it: of ``tables``, ``charts`` and,
for each run, a ``player``. Whoever has numbers fills a ``Page``: ``from_trace`` does so for one
audit of one trace.
"""

from tidings.report.page.from_trace import page_of_trace
from tidings.report.page.model import Page
from tidings.report.page.pictures import picture_of
from tidings.report.page.render import render

__all__ = ["Page", "page_of_trace", "picture_of", "render"]
