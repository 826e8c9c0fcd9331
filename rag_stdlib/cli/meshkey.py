"""`rag mesh key`: who a node is."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_stdlib.cli.frame import State, command, note
from rag_stdlib.cli.meshnode import meshes
from rag_stdlib.cli.terminal import show
from rag_stdlib.config import load_config
from rag_stdlib.contract.nodekeys import Profile


@command("key", "Make the key of a node.", group=meshes)
def key(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The new file; nothing is ever written over.")],
    profile: Annotated[Profile | None, typer.Option(metavar="NAME", help="pq_hybrid or pq_pure; otherwise as corvid.toml says, "
                                                                         "or pq_hybrid.")] = None,
    only_show: Annotated[bool, typer.Option("--show", help="Make nothing; show the node of a key that is there.")] = False,
) -> None:
    """Make a node's key in a new file that you alone can read, and print the node's id, which an organisation delegates its procedures to.

    The key is the node: who has the file can speak for it, and a node whose key is lost is another one.
    """
    from rag_stdlib.contract.nodekeys import NodeKey
    from rag_stdlib.keyfile import load_key, save_new_key

    if only_show:
        held = load_key(file, profile)
    else:
        state: State = context.obj
        held = NodeKey.generate(profile or load_config(state.config).mesh.profile)
        save_new_key(file, held)
        note(f"made a {held.profile} key in {file!r}; keep it to yourself, and keep a copy in a safe place")
    show(f"node       {held.node_id}")
    show(f"profile    {held.profile}")
