"""Who signs the certificates of a group, and takes them back.

A group has an authority of its own: a key that signs, in a folder that stays where it is. Each
member gets a folder to copy: its certificate and key, the authority's certificate, and the list of
what was revoked. A certificate names its holder as ``tidings://GROUP/MEMBER``, and nothing else:
an address may change, and says nothing about who listens there.

    authority/  key.pem  ca.pem  crl.pem  issued/p1-4f...pem  lock
    certs/p1/   key.pem  cert.pem  ca.pem  crl.pem

Members need nothing from this file: whoever only runs never imports the library that signs.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidings.core import DataError, EnvironmentMissing, UsageError
from tidings.disk.files import locked, make_folder, whole_file
from tidings.node.config import Config
from tidings.node.identity import CERTIFICATE, KEY, REVOKED, TRUSTED, uri_of

ISSUED = "issued"
MEMBER_DAYS, AUTHORITY_DAYS = 365, 3650
SKEW = timedelta(days=1)
"""Clocks differ: what is made now is valid since yesterday."""


class Issued(msgspec.Struct, frozen=True):
    """A certificate of a member, as ``tidings certs show`` lists it."""

    member: str
    serial: str
    begins: datetime
    ends: datetime
    state: str
    """valid, revoked, expired or not yet valid."""


class Authority:
    """The folder with the key, opened; ``found`` makes a new one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with _readable(folder / KEY):
            key = load_pem_private_key((folder / KEY).read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise DataError(f"{folder / KEY}: not a key of an authority")
        self._key = key
        self._own = _certificate(folder / TRUSTED)

    @classmethod
    def found(cls, folder: Path, group: str, days: int = AUTHORITY_DAYS) -> "Authority":
        """A new authority with a list of revocations, still empty."""
        if folder.exists():
            raise UsageError(f"{folder} is there already; it stays as it is")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tidings authority {group}")])
        own = (
            _begun(name, name, key.public_key(), _now(), _now() + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_may(key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(_key_id(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        make_folder(folder / ISSUED)
        _write_key(folder / KEY, key)
        _write(folder / TRUSTED, own.public_bytes(Encoding.PEM))
        authority = cls(folder)
        authority._list([])
        return authority

    @property
    def ends(self) -> datetime:
        return self._own.not_valid_after_utc

    def issue(
        self,
        group: str,
        member: str,
        folder: Path,
        days: float = MEMBER_DAYS,
        begins: datetime | None = None,
    ) -> datetime:
        """A new key and certificate for this member, and when it ends.

        What was issued before stays valid. It begins now, unless a test needs another time.
        """
        begins = begins or _now()
        with self._signing():
            return self._issue(group, member, folder, begins, days)

    def _issue(
        self, group: str, member: str, folder: Path, begins: datetime, days: float
    ) -> datetime:
        ends = min(begins + timedelta(days=days), self.ends)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, member)])
        uri = x509.UniformResourceIdentifier(uri_of(group, member))
        known_as = x509.SubjectAlternativeName([uri])
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _begun(subject, self._own.subject, key.public_key(), begins, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_may(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(known_as, critical=False)
            .add_extension(_key_id(key.public_key()), critical=False)
            .add_extension(signer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        encoded = certificate.public_bytes(Encoding.PEM)
        # It can be revoked before anybody can use it.
        _write(self.folder / ISSUED / f"{member}-{certificate.serial_number:x}.pem", encoded)
        make_folder(folder)
        _write(folder / TRUSTED, self._own.public_bytes(Encoding.PEM))
        self.publish(folder)
        _write_key(folder / KEY, key)
        _write(folder / CERTIFICATE, encoded)
        return ends

    def revoke(self, *members: str) -> list[Issued]:
        """Take back everything that these members were issued; what is new in the list."""
        with self._signing():
            issued = self.issued()
            for member in members:
                if all(one.member != member for one in issued):
                    raise UsageError(f"{member} has no certificate of {self.folder}")
            newly = [one for one in issued if one.member in members and one.state != "revoked"]
            if newly:
                # Once in the list, always in the list, whatever became of the certificate.
                self._list([*self._listed(), *(_revocation(one) for one in newly)])
        return newly

    @property
    def revoked(self) -> Path:
        """The file that lists what is revoked."""
        return self.folder / REVOKED

    def publish(self, folder: Path) -> None:
        """The list of revocations, into the folder of a member."""
        _write(folder / REVOKED, self.revoked.read_bytes())

    def issued(self) -> list[Issued]:
        """Every certificate that this authority has signed."""
        revoked = self._listed()
        found = []
        for path in sorted((self.folder / ISSUED).glob("*.pem")):
            certificate = _certificate(path)
            serial = certificate.serial_number
            is_revoked = revoked.get_revoked_certificate_by_serial_number(serial) is not None
            state = "revoked" if is_revoked else _state(certificate)
            member = path.stem.rpartition("-")[0]
            begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            found.append(Issued(member, f"{serial:x}", begins, ends, state))
        return sorted(found, key=lambda one: (one.member, one.begins, one.serial))

    @contextmanager
    def _signing(self) -> Iterator[None]:
        """Nobody else signs meanwhile, and whoever looks believes what is signed."""
        if self.ends <= _now():
            raise DataError(
                f"{self.folder / TRUSTED}: ended on {self.ends:%Y-%m-%d}, and can sign nothing any "
                "more; make a new authority (docs/node.md, Three machines)"
            )
        lock = locked(self.folder, "certificates are signed where this can be written")
        try:
            yield
        finally:
            os.close(lock)

    def _listed(self) -> x509.CertificateRevocationList:
        with _readable(self.revoked):
            return x509.load_pem_x509_crl(self.revoked.read_bytes())

    def _list(self, revoked: Iterable[x509.RevokedCertificate]) -> None:
        # It never ends before the authority does: an old list must not stop a group that works.
        unsigned = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._own.subject)
            .last_update(_now() - SKEW)
            .next_update(self.ends)
        )
        for one in revoked:
            unsigned = unsigned.add_revoked_certificate(one)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        number = x509.CRLNumber(int(_now().timestamp() * 1000))
        for extension in (signer, number):
            unsigned = unsigned.add_extension(extension, critical=False)
        _write(self.revoked, unsigned.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))


def certify(
    config: Config, folder: Path, days: float = MEMBER_DAYS, authority_days: int = AUTHORITY_DAYS
) -> Authority:
    """A new authority in this folder, and a certificate for each member where the file says."""
    assert config.certificates is not None, "a plain group has no certificates"
    authority = Authority.found(folder, config.name, authority_days)
    for member in config.members:
        authority.issue(config.name, member, config.certificates / member, days)
    return authority


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - SKEW)
        .not_valid_after(ends)
    )


def _may(**uses: bool) -> x509.KeyUsage:
    every = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{use: uses.get(use, False) for use in every})


def _key_id(key: ec.EllipticCurvePublicKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key)


def _revocation(one: Issued) -> x509.RevokedCertificate:
    serial = int(one.serial, 16)
    return x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(_now()).build()


def _state(certificate: x509.Certificate) -> str:
    if certificate.not_valid_after_utc < _now():
        return "expired"
    return "not yet valid" if certificate.not_valid_before_utc > _now() else "valid"


# --- files


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with whole_file(path) as draft:
        draft.unlink(missing_ok=True)  # whatever it was, and whoever may read it
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(encoded)


def _write(path: Path, encoded: bytes) -> None:
    with whole_file(path) as draft:
        draft.write_bytes(encoded)


def _certificate(path: Path) -> x509.Certificate:
    with _readable(path):
        return x509.load_pem_x509_certificate(path.read_bytes())


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """One line about a file that is not there or not what it should be; nothing of what it says."""
    try:
        yield
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; certificates are signed where it is") from None
    except OSError as fault:
        raise EnvironmentMissing(f"{path}: {fault.strerror}") from None
    except (ValueError, TypeError):
        raise DataError(f"{path}: not what an authority writes there") from None
