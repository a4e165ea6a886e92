"""How a member proves who it is, and knows who the others are: TLS 1.3, both sides certified.

The folder of a member (``certs/p1``) has its certificate and key, the certificate of the group's
authority, and the list of what that has revoked. Nobody is believed for its address: what counts
is the name in the certificate, ``tidings://GROUP/MEMBER``.

A folder is tried before it is used: the member shakes hands with itself. So whatever the others
would refuse, it learns at its start or when it is asked to reload, in one line.
"""

import hashlib
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tidings.core import DataError, EnvironmentMissing
from tidings.node.wire import WireFault

CERTIFICATE, KEY, TRUSTED, REVOKED = "cert.pem", "key.pem", "ca.pem", "crl.pem"
FILES = (CERTIFICATE, KEY, TRUSTED, REVOKED)
WAY_OUT = "tidings certs show lists what there is; docs/node.md says how to renew it"

_REASONS = {9: "not_yet_valid", 10: "expired", 23: "revoked"}
_UNKNOWN = (18, 19, 20, 21, 7)
"""OpenSSL's numbers for what is signed by nobody that we know; the others are in the table."""


def uri_of(group: str, member: str) -> str:
    return f"tidings://{group}/{member}"


class Proof(NamedTuple):
    """What the certificate of the other side says."""

    member: str
    ends_s: float
    """When it ends, in seconds since 1970."""


class Identity:
    """The certificate of a member, and whom it believes."""

    def __init__(self, folder: Path, group: str, member: str) -> None:
        self.folder = folder
        self._group = group
        self.digest = _digest(folder)
        """What stood in the files: nothing is new as long as it is the same."""
        self.answering = self._context(ssl.PROTOCOL_TLS_SERVER)
        self.answering.num_tickets = 0  # nobody resumes: each connection is checked as a whole
        self.calling = self._context(ssl.PROTOCOL_TLS_CLIENT)
        self.own = self._tried(member)

    def _context(self, side: int) -> ssl.SSLContext:
        context = ssl.SSLContext(side)
        context.check_hostname = False  # addresses prove nothing
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_X509_STRICT
        for name in (TRUSTED, REVOKED):
            with _explained(self.folder / name):
                context.load_verify_locations(self.folder / name)
        with _explained(self.folder / CERTIFICATE):
            # No password is asked for: a member starts without anybody there.
            chain = (self.folder / CERTIFICATE, self.folder / KEY)
            context.load_cert_chain(*chain, password=lambda: "")
        return context

    def _tried(self, member: str) -> Proof:
        """Our own certificate, as the others see it."""
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        caller = self.calling.wrap_bio(back, there)
        called = self.answering.wrap_bio(there, back, server_side=True)
        try:
            for side in (caller, called, caller, called):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
            proof = self.proof_of(called)
        except ssl.SSLError as fault:
            words = described(fault).words.removeprefix("its ")
            raise DataError(f"{self.folder / CERTIFICATE}: {words}; {WAY_OUT}") from None
        except WireFault as fault:
            words = str(fault).removeprefix("its certificate is ")
            raise DataError(f"{self.folder / CERTIFICATE}: {words}") from None
        if proof.member != member:
            raise DataError(
                f"{self.folder / CERTIFICATE}: it is the certificate of {proof.member}, "
                f"and this is {member}"
            )
        return proof

    def proof_of(self, side: ssl.SSLObject | ssl.SSLSocket) -> Proof:
        """Who is at the other end of a connection that has shaken hands."""
        seen: Any = side.getpeercert()
        names = [name for kind, name in seen.get("subjectAltName", ()) if kind == "URI"]
        found = re.fullmatch(r"tidings://([^/]+)/([^/]+)", names[0]) if len(names) == 1 else None
        if found is None:
            raise WireFault("its certificate is of no member of any group", "name")
        if found[1] != self._group:
            words = f"its certificate is for group {found[1]!r}, and this is {self._group!r}"
            raise WireFault(words, "group")
        return Proof(found[2], float(ssl.cert_time_to_seconds(seen["notAfter"])))


class Refusal(NamedTuple):
    """Why there is no connection, and what the metrics call it."""

    words: str
    reason: str


def described(fault: ssl.SSLError) -> Refusal:
    """What went wrong while shaking hands, in words for a log."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        code = int(fault.verify_code)
        reason = "authority" if code in _UNKNOWN else _REASONS.get(code, "certificate")
        return Refusal(f"its certificate is refused: {fault.verify_message}", reason)
    cause = fault.reason or ""
    if alert := re.search(r"ALERT_(\w+)", cause):
        words = alert[1].lower().replace("_", " ")
        return Refusal(f"refuses our certificate or our TLS: {words}", "refused_us")
    if "NO_CERTIFICATE" in cause or "PEER_DID_NOT_RETURN" in cause:
        return Refusal("it has no certificate", "certificate")
    if cause in ("UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"):
        return Refusal("it speaks no TLS 1.3", "tls")
    return Refusal(f"it does not speak TLS: {cause.lower().replace('_', ' ')}", "tls")


def _digest(folder: Path) -> bytes:
    """Of what stands in the folder; whatever cannot be read, or may be read by others, is named."""
    whole = hashlib.sha256()
    for name in FILES:
        path = folder / name
        try:
            with path.open("rb") as file:
                if name == KEY and os.fstat(file.fileno()).st_mode & 0o077:
                    raise DataError(f"{path}: others may read this key; write: chmod 600 {path}")
                whole.update(file.read())
        except FileNotFoundError:
            raise DataError(
                f"{path}: no such file; copy the member's folder here, or make one: tidings certs "
                "issue"
            ) from None
        except OSError as fault:
            raise EnvironmentMissing(f"{path}: {fault.strerror}") from None
    return whole.digest()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """A file that OpenSSL cannot use is named; what stands in it is not shown."""
    try:
        yield
    except ssl.SSLError as fault:
        if fault.reason == "KEY_VALUES_MISMATCH":
            raise DataError(
                f"{path}: not for the {KEY} beside it; copy the member's whole folder again, or "
                "make both anew: tidings certs renew"
            ) from None
        words = (fault.reason or "no PEM file").lower().replace("_", " ")
        raise DataError(f"{path}: not what tidings certs writes: {words}") from None
    except OSError as fault:  # it was there a moment ago
        raise EnvironmentMissing(f"{path}: {fault.strerror}; try again") from None
