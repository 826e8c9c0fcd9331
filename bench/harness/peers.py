"""The libraries that are measured: how each is called, which environment it needs, and up to how many rows it is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ONE_THREAD = dict.fromkeys((
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS", "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS", "LANCE_CPU_THREADS", "NUMBA_NUM_THREADS"), "1")
QUIET = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "PYTHONHASHSEED": "0"}
_NUMPY = "numpy==2.4.6"


@dataclass(frozen=True)
class Peer:
    """A library under measurement; without requirements it runs in this project's own environment."""

    name: str
    title: str
    adapter: str
    requirements: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()  # the packages whose versions are named
    kinds: tuple[str, ...] = ("vector",)
    most_rows: int = 1_000_000
    random: bool = True  # whether random vectors are measured too
    replaces: bool = False  # whether another process may replace documents while one searches

    @property
    def environment(self) -> str:
        """The name of the environment's folder: peers of the same packages share one."""
        return self.shown[0] if self.requirements else ""


_ALL = ("vector", "lexical", "hybrid")
PEERS = (
    Peer("ours", "rag-stdlib", "ours", shown=("rag-stdlib", "apsw", "sqlite-vec", "numpy", "simsimd"), kinds=_ALL, replaces=True),
    Peer("approximate", "rag-stdlib approximate", "ours_approximate", shown=("rag-stdlib",)),
    Peer("vec0", "sqlite-vec + FTS5", "vec0_fts5", shown=("sqlite-vec", "apsw"), kinds=_ALL, replaces=True),
    Peer("fts5", "FTS5", "fts5_plain", shown=("apsw",), kinds=("lexical",), random=False, replaces=True),
    Peer("numpy", "numpy float32", "matrix_numpy", shown=("numpy",)),
    Peer("faiss", "FAISS flat", "faiss_flat", ("faiss-cpu==1.15.1", _NUMPY), ("faiss-cpu",)),
    Peer("usearch", "usearch exact", "usearch_exact", ("usearch==2.26.6", _NUMPY), ("usearch",)),
    Peer("hnsw", "usearch HNSW", "usearch_hnsw", ("usearch==2.26.6", _NUMPY), ("usearch",), most_rows=100_000),
    Peer("lancedb", "LanceDB", "lancedb_flat", ("lancedb==0.40.0", _NUMPY), ("lancedb",), kinds=_ALL, replaces=True),
    Peer("chroma", "Chroma (HNSW)", "chroma_local", ("chromadb==1.5.9", _NUMPY), ("chromadb",), most_rows=100_000),
    Peer("tantivy", "tantivy", "tantivy_disk", ("tantivy==0.27.0", _NUMPY), ("tantivy",), kinds=("lexical",), random=False),
    Peer("bm25s", "bm25s", "bm25s_memory", ("bm25s==0.3.16", _NUMPY), ("bm25s",), kinds=("lexical",), most_rows=100_000, random=False),
    Peer("llamaindex", "LlamaIndex + FAISS", "llamaindex_faiss",
         ("llama-index-core==0.14.25", "llama-index-vector-stores-faiss==0.7.0", "faiss-cpu==1.15.1", _NUMPY), ("llama-index-core",),
         most_rows=100_000, random=False),
)
NOT_RUN = {"txtai": "not run: it requires torch and transformers; LlamaIndex stands for the frameworks"}
BY_NAME = {peer.name: peer for peer in PEERS}


def python_of(peer: Peer, environments: Path) -> str:
    """Give the interpreter that runs a peer."""
    return str(environments / peer.environment / "bin" / "python") if peer.requirements else sys.executable


def install(peer: Peer, environments: Path) -> str:
    """Make the peer's environment unless it is there with these requirements; return what went wrong, or nothing."""
    if not peer.requirements:
        return ""
    folder = environments / peer.environment
    mark, wanted = folder / "requirements.txt", "\n".join(peer.requirements)
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return ""
    print(f"  installing {' '.join(peer.requirements)}", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    done = subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                           *peer.requirements], text=True, capture_output=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"])[-1]
    mark.write_text(wanted, encoding="utf-8")
    return ""


def versions(peer: Peer, environments: Path) -> dict[str, str]:
    """Give the versions of the packages that the peer is known by, and of SQLite where it is used."""
    code = ("import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}"
            " | ({'SQLite': __import__('apsw').sqlite_lib_version()} if 'apsw' in sys.argv else {})))")
    found = subprocess.run([python_of(peer, environments), "-c", code, *peer.shown], text=True, capture_output=True, check=True)
    read: dict[str, str] = json.loads(found.stdout)
    return read


def environment_of(bench: Path) -> dict[str, str]:
    """Give the environment variables of a measuring process: one thread in every library that reads one of them."""
    return {**os.environ, **ONE_THREAD, **QUIET, "PYTHONPATH": str(bench)}
