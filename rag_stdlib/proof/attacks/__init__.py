"""Attacks on certificates, to be run against a verifier: what an attacker with no key, with a key of his own, or with the issuer's makes of one.

None of it is needed to verify. `rag_stdlib.proof.attacks.table` runs the attacks; docs/certificate.md says what has to come of each.
"""
