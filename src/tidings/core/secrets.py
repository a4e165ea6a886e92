"""What nobody may read in an error, on a page or in a trace: the passwords of a source.

They come in two ways: in a URI (``ftp://user:password@host/...``), and as options of a reader.
"""

import re
from collections.abc import Mapping

HIDDEN = "***"
_IN_A_URI = re.compile(r"(?<=[\w+.-]{2}:/)(/{0,2})[^\s/@:]*:(?!\d+/)[^\s@]*@")
"""A user and a password. A port has a path behind it, and a container (``abfss://container@host``)
has no password. One slash is enough: a Path has no empty parts."""
_AS_A_PARAMETER = re.compile(
    r"(?i)((?:password|passwd|secret|token|credential|signature|\bsig)\w*=)[^\s&;,]+"
)
_OPTION = re.compile(
    r"(?i)passw|secret|token|credential|signature|jaas|access.?key|account.?key|\bsas\b"
)
"""Options that are called so have values to hide."""


def without_secrets(text: str, options: Mapping[str, str] | None = None) -> str:
    """The same words, but for the passwords in them, and for what secret options say."""
    for name, value in (options or {}).items():
        if value and _OPTION.search(name):
            text = text.replace(value, HIDDEN)
    text = _IN_A_URI.sub(rf"\1{HIDDEN}@", text)
    return _AS_A_PARAMETER.sub(rf"\1{HIDDEN}", text)
