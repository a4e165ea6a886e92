"""The manifests of a campaign: hundreds of thousands of runs, nearly all of them alike.

Merging and checking a manifest takes a hundred times as long as decoding it. Here a run whose
manifest has one part only, and differs from one that was checked in nothing that is checked, is
taken as it is. Anything else is left to ``trace.read_manifests``, and so is every complaint.
"""

from pathlib import Path

import msgspec

from tidings.core import DataError
from tidings.trace import Manifest, read_manifests
from tidings.trace.manifest import check, merge


def manifests_of(files: tuple[Path, ...]) -> dict[str, Manifest]:
    """What ``trace.read_manifests`` returns, sooner."""
    try:
        alike = _read_alike(files)
    except (msgspec.MsgspecError, UnicodeDecodeError, DataError):
        alike = None
    return alike or read_manifests(files)


def _read_alike(files: tuple[Path, ...]) -> dict[str, Manifest] | None:
    """The manifests, if each run has but one part."""
    decoder = msgspec.json.Decoder(Manifest)
    manifests: dict[str, Manifest] = {}
    checked = set()
    for file in files:
        for line in file.read_bytes().splitlines():
            if not line.strip():
                continue
            part = decoder.decode(line)
            if part.run in manifests:
                return None
            fates = tuple(part.fates.items()) if part.fates else ()
            key = (part.schema, part.digest, part.names, part.views, fates)
            if key not in checked or part.cuts:
                check(merge([part]))
                checked.add(key)
            if part.process is not None:
                part = msgspec.structs.replace(part, process=None)
            manifests[part.run] = part
    return manifests
