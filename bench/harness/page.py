"""The page of results: tables and plots of every data set, with the machine and the versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness import figures as plots
from harness.peers import BY_NAME, NOT_RUN, PEERS
from harness.tables import NOTHING, number, ratio, table

OURS = "ours"
_INTRO = """# Benchmarks

Written by `make bench`; do not edit. Each library runs in its own process and environment with one thread, given the same texts and
vectors, and returns the text and the document of each of ten hits. Libraries take turns in rounds; figures are medians over the
rounds, and ratios compare within one run. What each adapter does is in `bench/adapters/`, the method in `bench/harness/`.

How the figures stand to what this project aims at: [checks.md](checks.md); where a search spends its time: [profile.txt](profile.txt).
"""
_DATA = """## Data

Chunks of at most 400 characters with a fifth of overlap, of {documents}. The first {real:,} chunks have vectors of the `local`
embedder (all-MiniLM-L6-v2, 384 dimensions). Beyond them a text is a recombination of real sentences and a vector is a real one plus
noise of the real vectors' covariance, scaled by a half. `random` vectors are gaussian on the sphere. Vector queries are {questions},
embedded likewise. *Five words* come from one sentence, none of the 20 commonest, and in the first pass no word was asked before;
*with stop words* are five words in a row of a sentence with at least two of those 20.
"""
Sets = Mapping[str, Any]


def write_page(results: Mapping[str, Any], out: Path) -> None:
    """Write README.md and the plots into a folder."""
    sets = sorted(results["sets"].values(), key=lambda each: (each["vectors"] == "random", each["rows"]))
    parts = [_INTRO, _machine(results, sets), _data(sets)]
    for name, drawn in plots.draw(sets, {peer.name: peer.title for peer in PEERS}).items():
        (out / name).write_text(drawn, encoding="utf-8")
    if (out / "scale.svg").is_file():
        parts.append("## Vector search by size\n\n![Median time of a vector search by the number of chunks](scale.svg)\n")
    parts += [_one_set(each) for each in sets]
    (out / "README.md").write_text("\n".join(parts), encoding="utf-8")


def _machine(results: Mapping[str, Any], sets: list[Sets]) -> str:
    about = results["machine"]
    rates = [each["limits"]["read_gb_s"] for each in sets]
    read = f"; one thread of numpy reads {number(min(rates))} to {number(max(rates))} GB/s" if rates else ""
    lines = [("processor", f"{about['cpu']} ({about['family']}), {about['cores']} cores; {', '.join(about['flags'])}"),
             ("caches", ", ".join(about["caches"]) or NOTHING),
             ("memory", f"{about['memory_gb']} GB{read}"),
             ("system", f"{about['kernel']}, {about['file_system']}, {about['libc']}, Python {about['python']}")]
    lines += [(BY_NAME[name].title, ", ".join(f"{package} {version}" for package, version in found.items()))
              for name, found in results["versions"].items()]
    lines += [(BY_NAME[name].title, f"left out: {reason}") for name, reason in results["absent"].items()]
    lines += NOT_RUN.items()
    return f"## Machine and versions\n\n{table(('', 'what'), lines).replace('---:', '---')}"


def _data(sets: list[Sets]) -> str:
    if not sets:
        return ""
    manifest = sets[-1]["manifest"]
    documents = f"the long descriptions of {manifest['descriptions']} Python packages"
    return _DATA.format(documents=f"{documents} and the SQuAD v1.1 paragraphs" if manifest["squad"] else documents,
                        questions="SQuAD questions" if manifest["squad"] else "sentences of the corpus",
                        real=max(each["manifest"]["real_rows"] for each in sets))


def _one_set(each: Sets) -> str:
    peers = {name: figures for name, figures in each["peers"].items() if "failed" not in figures}
    parts = [f"## {each['rows']:,} chunks, {each['vectors']} vectors\n"]
    if each["vectors"] == "real":
        parts.append(f"![Search times](search-{each['rows']}.svg)\n\n![Building and resources](resources-{each['rows']}.svg)\n")
    for heading, writer in (("Vector search", _vector), ("Lexical search", _lexical), ("Hybrid search", _hybrid),
                            ("Building, files and memory", _resources), ("Queries a second by threads", _threads),
                            ("Searching while another process replaces documents", _writing)):
        if text := writer(each, peers):
            parts.append(f"### {heading}\n\n{text}")
    runs = {name: figures["run"] for name, figures in peers.items()}
    if others := {name: run for name, run in runs.items() if run != runs.get(OURS, max(runs.values()))}:
        parts.append("Measured in another run: " + "; ".join(f"{BY_NAME[name].title} ({run})" for name, run in others.items()) + ".\n")
    failed = {name: figures for name, figures in each["peers"].items() if "failed" in figures or "partly" in figures}
    if failed:
        parts.append("Not measured: " + "; ".join(f"{BY_NAME[name].title} ({figures.get('failed') or figures['partly']})"
                                                  for name, figures in failed.items()) + ".\n")
    return "\n".join(parts)


def _ordered(peers: Mapping[str, Any], key: Callable[[Mapping[str, Any]], float | None]) -> list[tuple[str, Any]]:
    """Give the libraries that have a figure, least first."""
    having = [(value, name) for name, figures in peers.items() if (value := key(figures)) is not None]
    return [(name, peers[name]) for _, name in sorted(having)]


def at(figures: Mapping[str, Any], *path: str) -> Any:  # noqa: ANN401 - a number or None
    """Follow keys into nested figures; None where one is missing."""
    found: Any = figures
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _title(name: str) -> str:
    return f"**{BY_NAME[name].title}**" if name == OURS else BY_NAME[name].title


def _vector(each: Sets, peers: Mapping[str, Any]) -> str:
    ours, floor = at(peers, OURS, "searches", "vector", "p50"), each["limits"]["float_ms"]
    rows = []
    for name, figures in _ordered(peers, lambda one: at(one, "searches", "vector", "p50")):
        found = figures["searches"]["vector"]
        rows.append((_title(name), number(found["p50"]), number(found["p95"]), number(found["p99"]), ratio(found["p50"], ours),
                     ratio(found["p50"], floor), f"{found['recall']:.4f}", number(found["cores"], 2)))
    if not rows:
        return ""
    limits = [(f"*plain read of the vectors as {kind}*", number(each["limits"][f"{key}_ms"]), NOTHING, NOTHING,
               ratio(each["limits"][f"{key}_ms"], ours), ratio(each["limits"][f"{key}_ms"], floor), NOTHING, NOTHING)
              for kind, key in (("float32", "float"), ("int8", "int8"))]
    return table(("library", "p50 ms", "p95 ms", "p99 ms", "p50 to rag-stdlib's", "p50 to the float32 read", "recall@10", "cores busy"),
                 rows + limits)


def _lexical(_: Sets, peers: Mapping[str, Any]) -> str:
    names = ("lexical five first", "lexical five", "lexical stop first", "lexical stop")
    ours = [at(peers, OURS, "searches", name, "p50") for name in names]
    rows = [(_title(name), *(number(at(figures, "searches", search, key)) for search in names for key in ("p50", "p95")),
             ratio(at(figures, "searches", names[0], "p50"), ours[0]), ratio(at(figures, "searches", names[1], "p50"), ours[1]),
             ratio(at(figures, "searches", names[3], "p50"), ours[3]))
            for name, figures in _ordered(peers, lambda one: at(one, "searches", "lexical five", "p50"))]
    header = ("library", *(f"{words}, {which} {key} ms" for words in ("five words", "with stop words")
                           for which in ("first", "again") for key in ("p50", "p95")),
              "first to rag-stdlib's", "again to rag-stdlib's", "stop words again to rag-stdlib's")
    return table(header, rows) if rows else ""


def _hybrid(_: Sets, peers: Mapping[str, Any]) -> str:
    names = ("hybrid five", "hybrid question")
    ours = [at(peers, OURS, "searches", name, "p50") for name in names]
    rows = [(_title(name), *(number(at(figures, "searches", search, key)) for search in names for key in ("p50", "p95", "p99")),
             *(ratio(at(figures, "searches", search, "p50"), own) for search, own in zip(names, ours, strict=True)))
            for name, figures in _ordered(peers, lambda one: at(one, "searches", "hybrid five", "p50"))]
    header = ("library", *(f"{words}, {key} ms" for words in ("five words", "a whole question") for key in ("p50", "p95", "p99")),
              "five words to rag-stdlib's", "question to rag-stdlib's")
    return table(header, rows) if rows else ""


def _resources(each: Sets, peers: Mapping[str, Any]) -> str:
    vectors, texts = each["rows"] * 384 * 4 / 1e6, each["manifest"]["text_mb"]
    ours = peers.get(OURS, {})
    rows = []
    for name, figures in _ordered(peers, lambda one: at(one, "build_s")):
        raw = texts + (vectors if "vector" in BY_NAME[name].kinds else 0)
        rows.append((_title(name), number(figures["build_s"]), number(figures["chunks_s"]),
                     ratio(figures["chunks_s"], at(ours, "chunks_s")), number(figures["file_mb"]), ratio(figures["file_mb"], raw),
                     number(figures["build_peak_mb"]), number(figures["search_mb"]), number(figures["search_peak_mb"]), number(figures["before_mb"]),
                     ratio(figures["search_mb"], at(ours, "search_mb")), number(figures["load_ms"]), number(figures["open_ms"]),
                     number(figures["open_first_ms"])))
    if not rows:
        return ""
    return (f"The vectors are {number(vectors)} MB as float32, the texts of the chunks {number(texts)} MB; a file is compared with what it "
            "holds of these, once. Memory includes the interpreter and what it imported: the column *before opening*. The first query is a "
            "vector search where the library has one.\n\n" + table(
        ("library", "build s", "chunks/s", "chunks/s to rag-stdlib's", "file MB", "file to what it holds", "build peak MB",
         "search MB", "search peak MB", "before opening MB", "search MB to rag-stdlib's", "import ms", "open ms", "open + first query ms"), rows))


def _threads(_: Sets, peers: Mapping[str, Any]) -> str:
    rows = []
    for kind in ("vector", "lexical", "hybrid"):
        ours = at(peers, OURS, "threads", kind, "two")
        rows += [(f"{_title(name)}, {kind}", number(found["one"]), number(found["two"]), ratio(found["two"], found["one"]),
                  ratio(found["two"], ours))
                 for name, figures in reversed(_ordered(peers, partial(_both, kind))) if (found := figures["threads"][kind])]
    return table(("library and search", "one thread", "two threads", "two to one", "two to rag-stdlib's"), rows) if rows else ""


def _both(kind: str, figures: Mapping[str, Any]) -> float | None:
    found: float | None = at(figures, "threads", kind, "two")
    return found


def _writing(_: Sets, peers: Mapping[str, Any]) -> str:
    rows = [(f"{_title(name)}, {found['kind']}", number(found["idle"]["p50"]), number(found["idle"]["p95"]),
             number(found["busy"]["p50"]), number(found["busy"]["p95"]), ratio(found["busy"]["p95"], found["idle"]["p95"]),
             number(found["busy"]["max"]), number(found["writer"]["chunks_s"]), number(found["wal_mb"]) if found["wal_mb"] else NOTHING)
            for name, figures in _ordered(peers, lambda one: at(one, "writing", "busy", "p95")) if (found := figures["writing"])]
    return table(("library and search", "idle p50 ms", "idle p95 ms", "writing p50 ms", "writing p95 ms", "p95 writing to idle",
                  "longest ms", "writer's chunks/s", "WAL peak MB"), rows) if rows else ""
