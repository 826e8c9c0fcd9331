"""The keys of the tests' mesh: of its station, its realm, its organisation and its nodes. All are public, and nothing trusts them.

They are fixed, as seeds of their ML-DSA half, so that a station that is started again is the same one and every run has the same node ids.
Ids of the station and of nodes begin with the eight zero bits that stations ask for. The keys of the profile pq_hybrid share one RSA half.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rag_stdlib.contract.nodekeys import NodeKey, Profile

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

NODES = ("a", "b", "c", "d", "e", "f", "g", "h", "i")

_RSA_FILE = Path(__file__).with_name("rsa4096.pem")

_SEEDS: dict[Profile, dict[str, str]] = {
    "pq_pure": {
        "station": "275992be911c7a323394936537da660921907b6b2b0d4a70bf7ebcd2eed9a7ed",
        "realm": "e4acede3a0a5809f9a4b3d0f3b1e412ad9b651b4b79f5e993375372214897326",
        "org": "0c5d94335da7bb67d602ab3b33e6b501915f284170c8c89d0dfb262f5894c9bf",
        "a": "c814ad6b24188c6906bc0d1cc1af3f0ee0514bfc666a3f73717096a213009798",
        "b": "663ec575f03060befa7c229c331b751a8315102a57256527b8ec680039627264",
        "c": "32cb8ed0b63a9ad27ae8c63cc64a08682698ff31c6b2fe5523e83cc737b3ee91",
        "d": "515b3fa909dce8dd838e19f275dabd417871d3e037447c500ad3f3577ff73eb2",
        "e": "3f59c1f30d26c983d9433bca18cc77cf9bce07fd52ee14e9b5159869a8b4ced5",
        "f": "806f843dee9b233a82a3fa83f802408f7bded44d3a3c69e3db16ab0701bda325",
        "g": "ad53d6260f4f869105807dec4404da11a6ecee051614d09f7990d31824915fa5",
        "h": "a21f8e50a04a347ec86545e3259a23b7593dba81324e117d79dfc486ab144540",
        "i": "d96c5bc63b3ec824680ad826b6480acaf75b870953512435343f1142de25892f",
    },
    "pq_hybrid": {
        "station": "0750c182eb7843f21c3710bddbb3a77b779d29f12ccc9538f89634494d6c5831",
        "realm": "51d667205db8fef956b6f15ea34e3f68258089e3520929535fa98d3d2a5e3a1c",
        "org": "e84955a92305e23214edffe2036641676a662a7c79f8329b51f7533286f65b08",
        "a": "6be839e0a29cf3ba2792ecea3da4dff49d53bcf2d61da2146990c0e1c0097931",
        "b": "692f77983462f133ed5b19f2d0b008eaf746745f766460473a995d09e4163c16",
        "c": "3e22d1c0da5ea61c6e920fd30c7d2e12838b9171ef8025f09392bc290d541336",
        "d": "a6efc5990bb93dd43eadef186d3578f46abb9f9f09dff97703f75b35bd179a6d",
        "e": "57f1cf26dd24d219ad0804802c33331131e48c711409a939b75032a133ee14ad",
        "f": "d97ecdd24beadffcd02583362ca7e45aa87ae0da343960a93be29d0877b2d63f",
        "g": "d48b1e91473878f41108ec091acdf879d6dc2e83a89ee3df7d903d4940d4e158",
        "h": "7ce0611d21b6592868245b5938d49a891916b7d16be7ef4e9855650e4d170b36",
        "i": "c761bc4c5a4c7439e8c95cb5539051b90d0929e4527596db6c511368bd6d8700",
    },
}


@cache
def fixed_key(profile: Profile, role: str) -> NodeKey:
    """Give the key of ``station``, ``realm``, ``org`` or one of `NODES`; always the same."""
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey

    ml_dsa = MLDSA87PrivateKey.from_seed_bytes(bytes.fromhex(_SEEDS[profile][role]))
    return NodeKey(ml_dsa, _rsa() if profile == "pq_hybrid" else None)


@cache
def _rsa() -> RSAPrivateKey:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(_RSA_FILE.read_bytes(), None)
