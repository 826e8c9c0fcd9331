"""Node keys that are the same in every run, made from numbers written down here; they sign nothing but what tests make up."""

from __future__ import annotations

from functools import cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    rsa_crt_dmp1,
    rsa_crt_dmq1,
    rsa_crt_iqmp,
)

from rag_stdlib.contract.nodekeys import PROFILES, NodeKey, Profile

_P: Final = int(
    "ec5b46c8df3441720764de00ced8e4b98c9665d5c544411fe7f9e24ee660eb69afb83147c84e136e5da3b1520e01cef32058298c49157367ec34291c44faee0f"
    "a7d1a0a7b388d58c4d8ef84c335e64dacad8beaf9574248fd8946d285aa00a187331b68e474febb41663b6e7657a39f190c6d9f58378a2a0463c8910504b8f7d"
    "3b3141471c8cdb1245eefbfaa07448c5fcc070206f42dc92e54ec154f11859cf747fca156a2f53d282bc7161c5218c529f5995a90768116407312efddf1870ed"
    "aefb98ae05fe95e97b282b00e8c72564092977ad0a84af853fd034ef2b9fcaee1dfdb10e1e54697673cb9a0a7e304486badb09ad9dac308367bc5506250ab1a9"
    , 16)
_Q: Final = int(
    "d0f3e475d90b778c391991fa29b20a8f8fd2e74bab17a53cb9452dbb18d2bb5b526b6865b8eabbdaa490d138fc6c24b4fca5b1691bc3edf009be598444868c5c"
    "6a4c2badbe729c0f22008df1873a612c4db4b56c656bcb5a0705daaab22ed85376ac81813e1ea0516c98e37d7336e3aea564016714b6caa731f764531ea4d98d"
    "63d646bdb01221d48e955a827bcc08c6e027f4ba11821724c487d44ec0abe2f90ade7faf70b112922c1440242f2c4d5182f470e6ac7b92675b2056ef50d6165d"
    "e552b533b10858a6fd66fb5b14cbdda5acb63f2f9f374216ef1e0effa60317944fb84ea8ad861ad825a19e12fe8f1fc5d45e053fef8fe506316a9192a969857d"
    , 16)


@cache
def rsa_key() -> RSAPrivateKey:
    exponent = 65_537
    private = pow(exponent, -1, (_P - 1) * (_Q - 1))
    numbers = RSAPrivateNumbers(_P, _Q, private, rsa_crt_dmp1(private, _P), rsa_crt_dmq1(private, _Q), rsa_crt_iqmp(_P, _Q),
                                RSAPublicNumbers(exponent, _P * _Q))
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)  # which takes a third of a second


@cache
def node_key(profile: Profile, number: int = 1) -> NodeKey:
    """Return one of the fixed keys of a profile; those of pq_hybrid have the same RSA half."""
    return NodeKey(MLDSA87PrivateKey.from_seed_bytes(bytes([number]) * 32), rsa_key() if profile == "pq_hybrid" else None)


def other_profile(profile: Profile) -> Profile:
    return PROFILES[1 - PROFILES.index(profile)]
