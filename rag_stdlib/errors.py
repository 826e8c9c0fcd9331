"""The closed table of errors: code, message, meaning, and who can fix it.

`docs/errors.md` is generated from this table (``make generated``). Inside the library a failure travels
as `Failure`; the tool edge turns it into an `Err`. A wrong *shape* of a call is `ToolShapeError` and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rag_stdlib.result import Fix, RagError


class ToolShapeError(TypeError):
    """A tool was called with the wrong number or types of arguments; raised before any input or output."""


class Failure(Exception):  # noqa: N818 - it carries an error and is none itself
    """A failure on its way to the tool edge, where it becomes an `Err`; `error` is what the caller will see."""

    def __init__(self, error: RagError) -> None:
        """Carry `error`."""
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """One row of the table; `message` is a format template."""

    code: str
    fix: Fix
    message: str
    meaning: str


_ROWS: Final = (
    # --- the call ---
    ErrorSpec("invalid_chunk_chars", "caller", "chunk_chars must be at least 1",
              "The window size of a chunk is a positive number of characters."),
    ErrorSpec("invalid_limit", "caller", "limit must be at least 1", "Ask for at least one chunk."),
    ErrorSpec("invalid_doc_id", "caller", "doc_id {reason}", "A document id is 1 to 1,024 UTF-8 bytes, not blank."),
    ErrorSpec("invalid_text", "caller",
              "{field} holds a lone surrogate at character {offset}; it is no Unicode text and cannot be stored",
              "Decode the input properly (strict UTF-8) before it is handed over."),
    ErrorSpec("text_nul", "caller", "{field} holds U+0000 at character {offset}; remove or replace it first",
              "NUL ends strings in several tools, so that text behind it would be lost or matched wrongly."),
    ErrorSpec("text_too_large", "caller", "{field} is {size:,} bytes; the most is {cap:,}",
              "Split the text into several documents."),
    ErrorSpec("too_many_chunks", "caller",
              "the text would make more than {cap:,} chunks at chunk_chars={chunk_chars}; use larger chunks",
              "A bound on what one document may cost."),
    ErrorSpec("invalid_metadata", "caller", "metadata {reason}",
              "Metadata is a flat mapping of strings to strings, finite numbers, booleans or null."),
    ErrorSpec("invalid_option", "caller", "{name} {reason}", "An option of the call has a value outside its range."),
    ErrorSpec("invalid_filter", "caller", "filter {name}: {reason}",
              "A filter that cannot be served is refused, never ignored."),
    ErrorSpec("mode_needs_embedder", "caller",
              'mode "{mode}" needs an embedder, and no [rag] table is configured; '
              'use mode "lexical" or configure one',
              "Vector search was asked for by name where none is configured."),
    ErrorSpec("embedder_unconfigured", "operator",
              'no embedder is configured to embed with; put [rag] with embedder = "local" (or openai, ollama) into corvid.toml',
              "Embedding was asked for where no [rag] table is configured."),
    ErrorSpec("zero_query_vector", "caller",
              "the embedder gave a zero vector for this query, so nothing can be ranked by it; rephrase the query",
              "A zero vector has no direction and no cosine."),
    ErrorSpec("not_found", "caller", "the index holds no {kind} with the id {id!r}", "Nothing by this id is stored."),
    # --- paths ---
    ErrorSpec("path_empty", "caller", "the path {path!r} names no file", "Empty, `.` or ending in a slash."),
    ErrorSpec("path_nul", "caller", "the path holds a NUL byte at character {offset}", "No file name holds NUL."),
    ErrorSpec("path_parent", "caller",
              "the path {path!r} has a `..` component; name the file by its path below the [io] root",
              "Parent components are refused as such, wherever they would lead."),
    ErrorSpec("path_outside_root", "caller",
              "the path {path!r} escapes the configured [io] root; move the file below it or widen the root",
              "An absolute path is accepted only if it names a file inside the root."),
    ErrorSpec("path_form", "caller", "the path {path!r} is {form}, not a path below the [io] root",
              "Drive letters, UNC names, `file:` URIs and `:memory:` are refused on every platform."),
    ErrorSpec("path_symlink", "caller", "the path {path!r} goes through a symbolic link at {at!r}; links are not followed",
              "A link can point out of the root, or be swapped to do so between check and use."),
    ErrorSpec("path_special", "caller", "the path {path!r} is {kind}, not a regular file",
              "Directories, FIFOs, sockets and devices are refused."),
    ErrorSpec("path_hard_link", "caller",
              "the file {path!r} has {links} hard links; an index is opened for writing even to be read (closing it may move "
              "its log into the file), which could change a file elsewhere, so it is refused",
              "An index has exactly one name, for readers too."),
    ErrorSpec("path_folder_missing", "caller", "the folder of {path!r} does not exist; create it first",
              "Tools create index files, never folders."),
    ErrorSpec("path_permission", "operator", "the operating system refuses access to {path!r}: {detail}",
              "Permissions of the file or a folder above it."),
    ErrorSpec("path_too_long", "caller", "the path {path!r} is too long for the file system", "Use a shorter name."),
    # --- the index ---
    ErrorSpec("index_missing", "caller", "there is no index at {path!r}; ingest a document first",
              "Reading never creates an index."),
    ErrorSpec("not_an_index", "caller", "the file {path!r} is no rag-stdlib index: {detail}",
              "Another kind of file, or another program's database; it is left as it is."),
    ErrorSpec("index_too_new", "operator",
              "the index {path!r} has schema version {found}, this library reads up to {known}; upgrade rag-stdlib",
              "Written by a later release."),
    ErrorSpec("index_foreign_schema", "operator",
              "the index {path!r} has the schema of another std/rag implementation; "
              "make one of ours from it with: rag import {path} NEW_INDEX",
              "The file holds std/rag's tables without our metadata."),
    ErrorSpec("index_corrupt", "operator", "the index {path!r} is damaged: {detail}; run: rag check {path}",
              "SQLite or our own checks found the file inconsistent."),
    ErrorSpec("index_readonly", "operator", "the index {path!r} cannot be written: {detail}",
              "A read-only file, folder or file system."),
    ErrorSpec("busy", "operator", "the index {path!r} was locked by another writer for {seconds:g} s; try again",
              "A bounded wait for the writer's lock ended."),
    ErrorSpec("disk_full", "operator", "the disk is full; the index {path!r} is unchanged",
              "The transaction was rolled back."),
    ErrorSpec("index_io", "operator", "the operating system failed on the index {path!r}: {detail}",
              "A read, write or lock call failed below SQLite."),
    ErrorSpec("sqlite_unfit", "operator", "this SQLite ({version}) cannot serve an index: {detail}",
              "The SQLite library lacks FTS5 or cannot load sqlite-vec."),
    ErrorSpec("index_exists", "caller", "there is a file {path!r} already, and no new index takes its place; move it away, or choose another folder",
              "A command that makes new index files never writes over one."),
    ErrorSpec("index_is_shard", "operator", "the index {path!r} is shard {shard} of a larger one: {why}",
              "A shard holds a part of the documents, and no repository whole."),
    # --- vectors and embedders ---
    ErrorSpec("embedding_mismatch", "operator",
              "the index {path!r} holds vectors of {stored}; the configured embedder is {given}; "
              "configure the former, or re-embed with: rag reembed {path}",
              "Vectors of different models, dimensions or prefixes cannot be compared."),
    ErrorSpec("vectors_missing", "operator",
              "{missing:,} of {total:,} chunks of {path!r} have no vector for {given}; run: rag reembed {path}",
              "Chunks were ingested without an embedder; searching only the others would hide them."),
    ErrorSpec("embedder_not_installed", "operator", "the {provider} embedder needs packages that are missing ({detail}); "
              "install them with: pip install 'rag-stdlib[{extra}]'", "An optional part is not installed."),
    ErrorSpec("embedder_auth", "operator", "{provider} refused the credentials (HTTP {status}): {detail}",
              "A wrong, expired or unauthorised key."),
    ErrorSpec("embedder_model", "operator", "{provider} has no embedding model {model!r} (HTTP {status}): {detail}",
              "A misspelt model, or one that was not pulled."),
    ErrorSpec("embedder_rate_limit", "operator",
              "{provider} kept refusing for too many requests until the deadline of {seconds:g} s: {detail}",
              "HTTP 429 with retries used up."),
    ErrorSpec("embedder_timeout", "operator", "{provider} gave no complete answer within {seconds:g} s",
              "Slow or hanging server; see timeout_s in corvid.toml."),
    ErrorSpec("embedder_unreachable", "operator", "{provider} cannot be reached at {endpoint}: {detail}",
              "No connection; is the server running, is the endpoint right?"),
    ErrorSpec("embedder_rejected", "operator", "{provider} rejected the request (HTTP {status}): {detail}",
              "A client error that a retry would only repeat."),
    ErrorSpec("embedder_failed", "operator", "{provider} failed (HTTP {status}){where}: {detail}",
              "A server error that outlived the retries; the text that provokes it is named where it is one text."),
    ErrorSpec("embedder_reply", "operator", "{provider} sent an unusable reply{where}: {detail}",
              "Wrong count, order, dimension, or values that are no numbers; nothing of it was stored."),
    ErrorSpec("embedder_input_too_long", "caller",
              "{provider} refuses {where} as too long for the model: {detail}; use a smaller chunk_chars",
              "One text exceeds the model's input length."),
    # --- files ---
    ErrorSpec("file_missing", "caller", "there is no file {path!r} below the [io] root", "Nothing to read there."),
    ErrorSpec("file_too_large", "caller", "the file {path!r} is {size:,} bytes; the most is {cap:,}",
              "A bound on memory; split the file."),
    ErrorSpec("not_utf8", "caller", "{name!r} is not UTF-8 text: byte {offset} is 0x{byte:02x}",
              "Text is UTF-8, or UTF-16/32 with a byte order mark; it is never guessed from the locale."),
    ErrorSpec("file_unsupported", "caller", "{name!r}: {detail}", "A kind of file that no loader reads."),
    ErrorSpec("file_unreadable", "caller", "{name!r} cannot be read as {kind}: {detail}",
              "The file is damaged, encrypted, or not what its name says."),
    ErrorSpec("loader_not_installed", "operator",
              "reading {kind} files needs packages that are missing ({detail}); "
              "install them with: pip install 'rag-stdlib[loaders]'", "An optional part is not installed."),
    # --- corpora and keys ---
    ErrorSpec("corpus_document", "caller",
              "the document {id!r} belongs to a corpus; only rag corpus sync writes it, from its repository",
              "What a provider describes as a corpus is exactly what the repositories hold."),
    ErrorSpec("corpus_conflict", "operator",
              "the index {path!r} holds a document {id!r} that no corpus put there; delete it, then sync again",
              "A corpus never replaces a document of another origin."),
    ErrorSpec("corpus_list_missing", "operator",
              "there is no corpus list {path!r}; add a repository with: rag corpus add, or name a list with --list",
              "Syncing without a list would take every repository out, so it is refused; an empty list does it."),
    ErrorSpec("corpus_list_refused", "operator", "the corpus list {path!r} is refused: {detail}",
              "The whole list is refused on its first bad entry, and nothing moves."),
    ErrorSpec("corpus_busy", "operator", "{what} is being synced by another process; wait for it, or end it",
              "One sync at a time works on an index and its mirrors."),
    ErrorSpec("corpus_changed", "operator", "the corpus of {path!r} was changed by another sync meanwhile; sync again",
              "Nothing of this sync was stored."),
    ErrorSpec("git_missing", "operator", "git is not installed, or not on the PATH; corpora are fetched with it",
              "Install git."),
    ErrorSpec("repo_unreachable", "operator", "repository {id!r} cannot be fetched: {detail}",
              "The network, the address, or a repository that asks for credentials, which are never given."),
    ErrorSpec("repo_branch", "operator", "repository {id!r} has no branch {branch!r}", "The branch of the corpus list does not exist."),
    ErrorSpec("commit_not_on_branch", "operator",
              "repository {id!r}: the pinned commit {commit} is not on its branch {branch!r}; what was served before stays",
              "A pin names a commit that the branch leads to; a forced push can take it away."),
    ErrorSpec("repo_too_large", "operator", "repository {id!r} is larger than the bound: {detail}", "A bound on what one fetch may cost."),
    ErrorSpec("repo_timeout", "operator", "repository {id!r} was not fetched within {seconds:g} s", "A slow or hanging server."),
    ErrorSpec("repo_failed", "operator", "repository {id!r}: git failed: {detail}", "git reported what none of the other codes says."),
    ErrorSpec("no_embed_model", "operator",
              "the index {path!r} has no embedding model, so its corpus cannot be described; "
              "configure [rag] embedder, then run: rag reembed {path}",
              "A description names the model and its dimension."),
    ErrorSpec("key_file_missing", "caller", "there is no key file {path!r}: {detail}", "A node key is read from its file."),
    ErrorSpec("key_file_unsafe", "operator", "the key file {path!r} is not safe to use: {detail}",
              "A private key is a regular file that only its owner can read."),
    ErrorSpec("key_file_invalid", "operator", "{path!r} is no node key file: {detail}", "The seed form of a node key, whole."),
    ErrorSpec("key_file_io", "operator", "the operating system failed on the key file {path!r}: {detail}",
              "A read or write below the file system failed."),
    ErrorSpec("key_file_exists", "caller", "there is a file {path!r} already, and a key is never overwritten: {detail}",
              "Choose another name, or move the old key away."),
    ErrorSpec("mesh_not_installed", "operator", "a node on the mesh needs macula-py, which cannot be used here: {detail}; "
              "install it with: pip install 'rag-stdlib[mesh]'",
              "An optional part is not installed. It needs Python 3.11 and one of the platforms macula-py has a wheel for."),
    ErrorSpec("certificate_invalid", "caller", "what is to be certified is no certificate at {where}",
              "A certificate is issued only where its own verification would not refute it (docs/certificate.md)."),
    # --- answers: generators and judges ---
    ErrorSpec("generator_key_missing", "operator", "the {provider} generator needs a key: set {variable} in the environment",
              "Set the key, or use another generator."),
    ErrorSpec("generator_auth", "operator", "{provider} refused the credentials (HTTP {status}): {detail}",
              "A wrong, expired or unauthorised key."),
    ErrorSpec("generator_model", "operator", "{provider} has no chat model {model!r} (HTTP {status}): {detail}",
              "A misspelt model, or one that was not pulled."),
    ErrorSpec("generator_rate_limit", "operator",
              "{provider} kept refusing for too many requests until the deadline of {seconds:g} s: {detail}",
              "HTTP 429 with retries used up."),
    ErrorSpec("generator_timeout", "operator", "{provider} gave no complete answer within {seconds:g} s",
              "A slow or hanging server, or a model that is slower than the time it is given."),
    ErrorSpec("generator_unreachable", "operator", "{provider} cannot be reached at {endpoint}: {detail}",
              "No connection; is the server running, is the endpoint right?"),
    ErrorSpec("generator_rejected", "operator", "{provider} rejected the request (HTTP {status}): {detail}",
              "A client error that a retry would only repeat."),
    ErrorSpec("generator_failed", "operator", "{provider} failed (HTTP {status}): {detail}",
              "A server error that outlived the retries."),
    ErrorSpec("generator_reply", "operator", "{provider} sent an unusable answer: {detail}",
              "No text, text that is no Unicode, or an answer that is not complete; nothing of it was used."),
    ErrorSpec("generator_input_too_long", "caller",
              "{provider} refuses question and evidence as too long for the model: {detail}; retrieve less, or use smaller chunks",
              "What the model is asked exceeds its context."),
    ErrorSpec("judge_model", "operator", "the model in {path!r} cannot judge: {detail}",
              "A judge's files are missing or damaged, or do not say what the model's outputs mean."),
    ErrorSpec("judge_not_installed", "operator", "judging by a model needs packages that are missing ({detail}); "
              "install them with: pip install 'rag-stdlib[local]' (for a model in ONNX form), or pip install transformers torch",
              "An optional part is not installed."),
    # --- configuration and authority ---
    ErrorSpec("root_unconfigured", "operator",
              "no [io] root is configured, so every path is refused; "
              'put [io] with root = "." into corvid.toml (rag init writes one), or set CORVID_IO_ROOT',
              "Retrieval fails closed without a root."),
    ErrorSpec("root_unusable", "operator", "the configured [io] root cannot be used: {detail}",
              "It does not exist, is no folder, or may not be opened."),
    ErrorSpec("config_missing", "operator", "there is no configuration file {path!r}", "A file named explicitly must exist."),
    ErrorSpec("config_invalid", "operator", "{where}: {detail}",
              "corvid.toml is strict: unknown names, wrong types and malformed TOML stop everything."),
    ErrorSpec("key_missing", "operator", "the {provider} embedder needs {variable} in the environment, and it is not set",
              "Set the key, or remove the [rag] table for lexical search."),
    ErrorSpec("effect_not_granted", "operator", "{tool} uses the effect {effect}, which is not granted here{hint}",
              "The grant is corvid.toml's [effects] grant, narrowed by the `grant(...)` blocks around the call."),
    ErrorSpec("deterministic_context", "caller", "{tool} was called inside deterministic(), where no tool may run",
              "Take the call out of the block."),
    ErrorSpec("internal", "nobody", "{tool} failed unexpectedly: {detail}; please report it",
              "A defect of this library. The full exception is logged to the `rag_stdlib` logger."),
)

_NAMES: Final = frozenset({"path", "name", "at"})
_SHOWN_CHARS: Final = 200

ERRORS: Final[dict[str, ErrorSpec]] = {row.code: row for row in _ROWS}


def rag_error(code: str, **fields: object) -> RagError:
    """Make the error `code` of the table, its message filled from `fields`; lone surrogates in it are written as escapes."""
    spec = ERRORS[code]
    shown = {name: _shortened(value) if isinstance(value, str) and name in _NAMES else value for name, value in fields.items()}
    return RagError(spec.message.format(**shown).encode(errors="backslashreplace").decode(), code, spec.fix)


def _shortened(name: str) -> str:
    half = _SHOWN_CHARS // 2
    return name if len(name) <= _SHOWN_CHARS else f"{name[:half]}…{name[-half:]}"


def fail(code: str, **fields: object) -> Failure:
    """Make the exception to raise; it becomes an ``Err`` with this code at the tool edge."""
    return Failure(rag_error(code, **fields))


def errors_markdown() -> str:
    """Render the table as the Markdown of `docs/errors.md`."""
    lines = [
        "# Error codes",
        "",
        "Generated from `rag_stdlib/errors.py` by `make generated`; a test holds the two together.",
        "",
        "Every `Err` of a tool carries one of these codes; the command line prints them too. *fix* says who can put it",
        "right: the caller (change the call), the operator (change the installation or its configuration), or nobody.",
        "",
        "| code | fix | message | meaning |",
        "|---|---|---|---|",
    ]
    for row in _ROWS:
        message = row.message.replace("\n", " ").replace("|", "\\|")
        lines.append(f"| `{row.code}` | {row.fix} | {message} | {row.meaning} |")
    return "\n".join(lines) + "\n"
