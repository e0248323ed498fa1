"""Generates an authority and certificates signed by it, as PEM, for brokers and clients on this machine.

They are valid from 2020 to 2049 regardless of the clock; the authority's key is not stored.
"""

from datetime import UTC, datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_FROM, UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2049, 12, 31, tzinfo=UTC)
_HOSTS = ("localhost", "127.0.0.1")


class Authority:
    """Signs certificates; `pem` is its own certificate, to be trusted by clients."""

    def __init__(self, name: str = "oncegate test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        certificate = (
            self._begun(self._name, self._key.public_key(), UNTIL)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, SHA256())
        )
        self.pem = certificate.public_bytes(Encoding.PEM)

    def signed(self, name: str, hosts: tuple[str, ...] = _HOSTS, until: datetime = UNTIL) -> tuple[bytes, bytes]:
        """Generates a key and a certificate for `CN=name`, valid for servers on `hosts` and for clients; returns both
        as PEM.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            self._begun(_named(name), key.public_key(), until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
            .sign(self._key, SHA256())
        )
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return key_pem, certificate.public_bytes(Encoding.PEM)

    def _begun(self, name: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime) -> x509.CertificateBuilder:
        own = self._key.public_key()
        return (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=name, public_key=key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_FROM)
            .not_valid_after(until)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
