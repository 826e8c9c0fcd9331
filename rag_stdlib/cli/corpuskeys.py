"""`rag corpus describe`, `hash` and `sign`: what an index serves, by which name, and who vouches for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.corpus import corpora
from rag_stdlib.cli.frame import AsJson, CommandError, Index, command, note, require, runtime_of, show_json
from rag_stdlib.cli.jsonfile import json_value
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.terminal import clean, plural, show
from rag_stdlib.contract.nodekeys import Profile
from rag_stdlib.effects import RAG_READ, RAG_WRITE
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.contract.corpus import Corpus

DEFAULT_PROFILE: Final[Profile] = "pq_hybrid"



@command("describe", "Show what corpus an index serves.", group=corpora)
def describe(context: typer.Context, index: Index, as_json: AsJson = False) -> None:
    """Show the corpus that an index serves: its embedding model, its repositories with their commits, its hash, and who signed it.

    With --json it is what a provider of this index answers to describe_corpus; byte strings are {"$bytes": BASE64}.
    """
    from rag_stdlib.contract import jsonform
    from rag_stdlib.contract.corpus import Corpus, Repo

    with runtime_of(context) as runtime:
        require(runtime, RAG_READ, "rag corpus describe")
        description = _description(runtime, below_root(runtime, index))
    if as_json:
        show_json(json.loads(jsonform.to_json(description)))
        return
    repos = tuple(Repo(**repo) for repo in description["repos"])
    show_corpus(Corpus(description["model"], description["dim"], repos, description["corpus_hash"]))
    show(f"signature  {'by ' + description['signed_by'] if 'signature' in description else 'none'}")


def _description(runtime: Runtime, index: str) -> dict[str, Any]:
    """Describe an index as a provider of it does that has no key of its own."""
    from rag_stdlib.corpus import describe as describing
    from rag_stdlib.mesh.procedures.signing import Signer

    with runtime.store.reading(index) as connection:
        description = describing.describe(connection, describing.identity_of(connection, index, runtime.embedder))
        kept = describing.kept_signature(connection, description["corpus_hash"])
    return {**description, **Signer().fields(description["corpus_hash"], kept)}


def show_corpus(corpus: Corpus) -> None:
    """Show what the hash of a corpus covers, and the hash that it goes by."""
    show(f"corpus     {clean(corpus.corpus_hash)}")
    show(f"model      {clean(corpus.model)}, {plural(corpus.dim, 'numbers')}")
    width = max((len(clean(repo.id)) for repo in corpus.repos), default=0)
    for repo in corpus.repos:
        show(f"repository {clean(repo.id):<{width}}  {clean(repo.branch)} at {clean(repo.commit)}  {clean(repo.url)}")
    if not corpus.repos:
        show("repository none")


@command("hash", "Print the hash of a corpus.", group=corpora)
def hash_(
    context: typer.Context,
    index: Annotated[str | None, typer.Argument(metavar="[INDEX]", help="The index that serves the corpus.")] = None,
    description: Annotated[str | None, typer.Option("--description", metavar="FILE",
                                                    help="Take a description in JSON instead, from anywhere.")] = None,
) -> None:
    """Print the hash by which answers name a corpus: over its model, dimension, and repositories with their commits, in order.

    Of a description the hash is computed, whatever hash stands in it.
    """
    if description is not None and index is None:
        show(_hash_in(description))
    elif index is not None and description is None:
        with runtime_of(context) as runtime:
            require(runtime, RAG_READ, "rag corpus hash")
            show(_description(runtime, below_root(runtime, index))["corpus_hash"])
    else:
        context.fail("give one of INDEX and --description")


def _hash_in(file: str) -> str:
    """Compute the hash of the description in a file."""
    from rag_stdlib.contract.corpus import MalformedDescription, corpus_hash

    given = json_value(file)
    try:
        computed = corpus_hash(given)
    except MalformedDescription as error:
        raise CommandError(f"{file!r} is no description of a corpus: {error}") from None
    if isinstance(given, dict) and given.get("corpus_hash", computed) != computed:
        note("the description names another hash, so whoever checks it refuses it")
    return computed


@command("sign", "Sign the corpus that an index serves.", group=corpora)
def sign(
    context: typer.Context,
    index: Index,
    key: Annotated[str, typer.Option("--key", metavar="FILE", help="The node key, in the seed form of macula-go and macula-py.")],
    make_key: Annotated[bool, typer.Option("--make-key", help="Make the key first, in a new file that you alone can read.")] = False,
    profile: Annotated[Profile, typer.Option(metavar="NAME", help="The key's profile: pq_hybrid or pq_pure.")] = DEFAULT_PROFILE,
) -> None:
    """Sign the hash of the corpus that an index serves, and keep the signature in the index, for every provider of it to hand out.

    It vouches for the model and the repositories at their commits, until the corpus changes; then it has to be signed again.
    """
    from rag_stdlib.contract.corpus import sign_corpus
    from rag_stdlib.contract.nodekeys import NodeKey
    from rag_stdlib.corpus.describe import keep_signature
    from rag_stdlib.keyfile import load_key, save_new_key

    with runtime_of(context) as runtime:
        for effect in (RAG_READ, RAG_WRITE):
            require(runtime, effect, "rag corpus sign")
        name = below_root(runtime, index)
        found = _description(runtime, name)
        if make_key:
            made = NodeKey.generate(profile)
            save_new_key(key, made)
            note(f"made a {profile} key: keep {key!r} to yourself, and give its node id to those who verify")
        held = load_key(key, profile)
        keep_signature(runtime.store, name, found["corpus_hash"], sign_corpus(found["corpus_hash"], held))
    if not found["repos"]:
        note("the index serves no repository; what is signed is the empty corpus")
    show(f"signed     {found['corpus_hash']}")
    show(f"by node    {held.node_id} ({held.profile})")
