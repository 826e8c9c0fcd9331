"""The transparency log: an append-only Merkle tree in one file, its signed checkpoints, and who watches over them.

`merkle`, `notes`, `checkpoints`, `cosignatures`, `pinned` and `receipts` check what is handed to them; they open nothing and know no time but
what they are given. `store` is the log, `witness` cosigns it, `memory` is what a client has seen of it, `monitor` reads all of it.
"""
