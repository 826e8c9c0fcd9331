"""Why a proof, a log, or a file of one was refused: two exceptions, and the closed table of their codes."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, str]] = {
    # --- what was handed over proves nothing: `ProofError` ---
    "note_malformed": "The bytes are no signed note (C2SP signed-note), or more than a note may hold.",
    "key_malformed": "The text or the bytes are no key of a note.",
    "keys_unfit": "The pinned keys contradict each other: none at all, one key under two names, two keys under one id.",
    "signature_invalid": "A signature by a known key does not hold; the whole note is refused.",
    "cosignature_invalid": "A cosignature by a known witness does not hold; the whole note is refused.",
    "signature_missing": "None of the pinned keys signed.",
    "quorum_missing": "Fewer witnesses cosigned than are asked for.",
    "checkpoint_malformed": "The text is no checkpoint (C2SP tlog-checkpoint).",
    "origin_mismatch": "The checkpoint is another log's.",
    "receipt_malformed": "The bytes are no receipt (C2SP tlog-proof).",
    "inclusion_invalid": "The path does not lead from the entry to the root.",
    "consistency_invalid": "The path does not show that the smaller tree is the beginning of the larger one.",
    "consistency_not_shown": "Nothing that is served shows that the larger tree goes on from the smaller one, nor that it does not.",
    "tile_malformed": "The bytes are no tile or bundle of entries of the width that the tree demands.",
    "request_malformed": "The bytes are no request to a witness (C2SP tlog-witness).",
    # --- what a log did ---
    "rolled_back": "A log shows a smaller tree than it showed before.",
    "forked": "A log shows a tree that is no continuation of the one it showed before.",
    "entries_differ": "The entries that are served are not those of the signed tree; whoever serves them may be at fault.",
    # --- the log, and those who watch it, on the disk ---
    "missing": "There is no such file.",
    "exists": "There is such a file already; it is left as it is.",
    "file_unsafe": "Others may use the file, or it is no regular file with one name.",
    "file_foreign": "The file is no file of this kind, or one of another release.",
    "file_moved": "The name stands for another file than the one that is open.",
    "file_io": "The operating system failed below the file.",
    "damaged": "The file contradicts itself; nothing is signed over it.",
    "busy": "Another process held the file for too long.",
    "disk_full": "There is no room; nothing was changed.",
    "readonly": "The file cannot be written.",
    # --- the use of a log ---
    "key_unknown": "The keys at hand are not those that the log is signed with.",
    "entry_too_large": "An entry is larger than a bundle of entries can hold.",
    "out_of_range": "The log has no such entry, or no tree of such a size.",
    # --- a service elsewhere ---
    "unreachable": "There was no answer, or none in time.",
    "refused": "A witness refused to cosign.",
    "reply_malformed": "The answer is none that such a service gives.",
}


class LogError(Exception):
    """Something about a log was refused.

    Attributes:
        code: One of `CODES`.
        words: What a reader is told.
    """

    def __init__(self, code: str, words: str) -> None:
        """Carry a code of the table and the words for a reader.

        Raises:
            ValueError: There is no such code.
        """
        if code not in CODES:
            raise ValueError(f"there is no code {code!r}")
        super().__init__(words)
        self.code = code
        self.words = words

    def __reduce__(self) -> tuple[type[LogError], tuple[str, str]]:
        """Pickle by the two arguments, so that it passes between processes."""
        return type(self), (self.code, self.words)


class ProofError(LogError, ValueError):
    """What was handed over as a proof proves nothing; whatever bytes come in, a verifier raises this and nothing else."""
