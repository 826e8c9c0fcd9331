"""Keys and identities of Macula nodes, in the two profiles of its wire 1.0: what signs, what verifies, and who that is.

`pq_pure` is ML-DSA-87 (FIPS 204) with an empty context; `pq_hybrid` adds RSA-4096 (`rag_stdlib.contract.composite`). A node id
is a hash of the public key *as carried* and of the profile's name, so nothing is ever re-encoded to compare identities::

    node id = SHA-256("MACULA-NODE-ID-V1" ‖ 00 ‖ one byte: length of the profile's name ‖ profile's name ‖ public key)

The key id, which names keys of realms and organisations, is the same with ``MACULA-KEY-ID-V1``.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from rag_stdlib.contract import composite

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

Profile: TypeAlias = Literal["pq_pure", "pq_hybrid"]

PROFILES: Final[tuple[Profile, ...]] = ("pq_pure", "pq_hybrid")
PUZZLE_BITS: Final = 8  # leading zero bits of a node id that stations ask for
MAX_PUZZLE_BITS: Final = 20  # about ten minutes of searching
MAX_SEED_FORM_BYTES: Final = 16_384  # a pq_hybrid key takes about 5,540

_MAGIC: Final = b"macula-node-key-seed-v1\0"
_IDENTITY: Final = 1  # the purpose of a key that a node is known by
_ML_DSA: Final = 1
_RSA: Final = 2
_TAGS: Final = {1: (_ML_DSA,), 2: (_ML_DSA, _RSA)}  # the halves of each profile's number, which is its place in PROFILES plus 1
_SEED_BYTES: Final = 32


class KeyFormError(ValueError):
    """The bytes are no node key in seed form."""


def known_profile(profile: Profile) -> Profile:
    """Return the profile; a `ValueError` where it is none of `PROFILES`."""
    if profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}; there are {' and '.join(PROFILES)}")
    return profile


def node_id(public: bytes, profile: Profile) -> str:
    """Compute the id of the node with this public key: 64 lowercase hex digits."""
    return _identifier(b"MACULA-NODE-ID-V1", public, profile)


def key_id(public: bytes, profile: Profile) -> str:
    """Compute the id by which realms and organisations name this public key: 64 lowercase hex digits."""
    return _identifier(b"MACULA-KEY-ID-V1", public, profile)


def well_formed(public: bytes, profile: Profile) -> bool:
    """Tell whether these bytes are a public key of the profile: of its length, and canonical in its RSA half."""
    if known_profile(profile) == "pq_pure":
        return len(public) == composite.ML_DSA_PUBLIC
    return composite.rsa_half(public) is not None


def verify(message: bytes, signature: bytes, public: bytes, profile: Profile) -> bool:
    """Tell whether the key made this signature over this message; False also for what is no key or signature of the profile."""
    if known_profile(profile) == "pq_hybrid":
        return composite.verify(message, signature, public)
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PublicKey

    if (len(public), len(signature)) != (composite.ML_DSA_PUBLIC, composite.ML_DSA_SIGNATURE):
        return False
    try:
        MLDSA87PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _identifier(label: bytes, public: bytes, profile: Profile) -> str:
    name = known_profile(profile).encode()
    return hashlib.sha256(label + bytes([0, len(name)]) + name + public).hexdigest()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NodeKey:
    """The secret key of a node: it signs, and it is known by `node_id`.

    Made by `generate` or `from_seed_form`. Two keys are equal where their node ids are. The secret never shows in `repr`, and a
    key cannot be pickled: the one way out is `to_seed_form`.

    Attributes:
        profile: ``pq_pure`` or ``pq_hybrid``.
        public: The public key as signed objects carry it: 2,592 bytes, or 3,118 with the RSA half.
        node_id: 64 lowercase hex digits.
        key_id: 64 lowercase hex digits.
    """

    _ml_dsa: MLDSA87PrivateKey
    _rsa: RSAPrivateKey | None
    profile: Profile = field(init=False)
    public: bytes = field(init=False)
    node_id: str = field(init=False)
    key_id: str = field(init=False)

    def __post_init__(self) -> None:
        """Work out the public key and the names; they follow from the secret halves alone."""
        profile: Profile = "pq_pure" if self._rsa is None else "pq_hybrid"
        public = self._ml_dsa.public_key().public_bytes_raw()
        if self._rsa is not None:
            public += composite.public_der(self._rsa.public_key())
        facts = {"profile": profile, "public": public, "node_id": node_id(public, profile), "key_id": key_id(public, profile)}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @classmethod
    def generate(cls, profile: Profile, *, puzzle_bits: int = PUZZLE_BITS) -> NodeKey:
        """Make a new key whose node id begins with `puzzle_bits` zero bits, which is what stations admit.

        It takes 2^`puzzle_bits` tries on average: at 8 bits about 0.1 s, and a pq_hybrid key a second more for its RSA half,
        which is made once.

        Raises:
            ValueError: The profile is unknown, or `puzzle_bits` is outside 0 to 20.
        """
        from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

        if not 0 <= puzzle_bits <= MAX_PUZZLE_BITS:
            raise ValueError(f"puzzle_bits must be 0 to {MAX_PUZZLE_BITS}, not {puzzle_bits}")
        hybrid = known_profile(profile) == "pq_hybrid"
        rsa = generate_private_key(composite.RSA_EXPONENT, composite.RSA_BITS) if hybrid else None
        while True:
            key = cls(MLDSA87PrivateKey.generate(), rsa)
            if int(key.node_id, 16) >> (256 - puzzle_bits) == 0:
                return key

    @classmethod
    def from_seed_form(cls, data: bytes) -> NodeKey:
        """Read a key in the seed form that macula-go and macula-py keep in files.

        ``macula-node-key-seed-v1 00``, then a byte each for the purpose (1: identity), the profile (1: pq_pure, 2: pq_hybrid) and
        the count of halves, then each half: a byte (1: ML-DSA, 2: RSA), the public and the private key, each behind its length
        in four bytes, big-endian. The private key is a seed of 32 bytes, or a PKCS #1 `RSAPrivateKey` in DER.

        Raises:
            KeyFormError: It is anything else, or a public key is not that of its private key; the message names no secret.
        """
        halves = _halves(data)
        return cls(_ml_dsa_private(*halves[0]), _rsa_private(*halves[1]) if len(halves) > 1 else None)

    def to_seed_form(self) -> bytes:
        """Write the key, the secret with it, in the form that `from_seed_form` reads."""
        halves = [(_ML_DSA, self.public[:composite.ML_DSA_PUBLIC], self._ml_dsa.private_bytes_raw())]
        if self._rsa is not None:
            halves.append((_RSA, self.public[composite.ML_DSA_PUBLIC:], _private_der(self._rsa)))
        head = bytes([_IDENTITY, PROFILES.index(self.profile) + 1, len(halves)])
        return _MAGIC + head + b"".join(
            struct.pack(">BI", tag, len(public)) + public + struct.pack(">I", len(private)) + private for tag, public, private in halves)

    def sign(self, message: bytes) -> bytes:
        """Sign a message: 4,627 bytes, or 5,139 in the profile pq_hybrid. Signatures are randomised; no two are alike."""
        if self._rsa is None:
            return self._ml_dsa.sign(message)
        return composite.sign(message, self._ml_dsa, self._rsa)

    def __eq__(self, other: object) -> bool:
        """Compare by node id, which the public key and the profile make."""
        return self.node_id == other.node_id if isinstance(other, NodeKey) else NotImplemented

    def __hash__(self) -> int:
        """Hash as it compares."""
        return hash(self.node_id)

    def __repr__(self) -> str:
        """Show who it is, and nothing of the secret."""
        return f"NodeKey({self.profile}, {self.node_id})"

    def __copy__(self) -> NodeKey:
        """Stay the same object: nothing of a key changes."""
        return self

    def __deepcopy__(self, memo: object) -> NodeKey:
        """Stay the same object."""
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled: a secret must not go where nobody looks for one."""
        raise TypeError("a node key holds a secret and cannot be pickled; to_seed_form() writes it out on purpose")


def _halves(data: bytes) -> list[tuple[bytes, bytes]]:
    """Take a seed form apart into (public, private) per half; what they hold is not looked at yet."""
    at = len(_MAGIC) + 3
    if len(data) > MAX_SEED_FORM_BYTES:
        raise KeyFormError(f"it is more than {MAX_SEED_FORM_BYTES:,} bytes")
    if data[:len(_MAGIC)] != _MAGIC:
        raise KeyFormError("it does not begin with macula-node-key-seed-v1 and a zero byte")
    if len(data) < at:
        raise KeyFormError("it ends early")
    purpose, profile, count = data[len(_MAGIC):at]
    if purpose != _IDENTITY:
        raise KeyFormError(f"its purpose is {purpose}; the key of a node has {_IDENTITY}")
    tags = _TAGS.get(profile)
    if tags is None:
        raise KeyFormError(f"its profile is {profile}; known are {', '.join(map(str, _TAGS))}")
    if count != len(tags):
        raise KeyFormError(f"it counts {count} halves where its profile has {len(tags)}")
    halves = []
    for tag in tags:
        if data[at:at + 1] not in (b"", bytes([tag])):
            raise KeyFormError(f"a half of kind {data[at]} stands where its profile has kind {tag}")
        public, at = _sized(data, at + 1)
        private, at = _sized(data, at)
        halves.append((public, private))
    if at != len(data):
        raise KeyFormError(f"{len(data) - at:,} bytes follow the key")
    return halves


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    start = at + 4
    end = start + int.from_bytes(data[at:start], "big")
    if start > len(data) or end > len(data):
        raise KeyFormError("it ends early")
    return data[start:end], end


def _ml_dsa_private(public: bytes, seed: bytes) -> MLDSA87PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey

    if len(seed) != _SEED_BYTES:
        raise KeyFormError(f"its ML-DSA seed is {len(seed):,} bytes; a seed has {_SEED_BYTES}")
    key = MLDSA87PrivateKey.from_seed_bytes(seed)
    if key.public_key().public_bytes_raw() != public:
        raise KeyFormError("its ML-DSA public key is not that of its seed")
    return key


def _rsa_private(public: bytes, der: bytes) -> RSAPrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        key = load_der_private_key(der, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFormError("its RSA private key cannot be read") from None
    if not isinstance(key, RSAPrivateKey) or _private_der(key) != der:
        raise KeyFormError("its RSA private key is no PKCS #1 DER")
    if not composite.is_fit(key.public_key()):
        raise KeyFormError(f"its RSA key is not of {composite.RSA_BITS:,} bits with the exponent {composite.RSA_EXPONENT:,}")
    if composite.public_der(key.public_key()) != public:
        raise KeyFormError("its RSA public key is not that of its private key")
    return key


def _private_der(key: RSAPrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())
