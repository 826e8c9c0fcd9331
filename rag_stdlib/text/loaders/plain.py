"""Plain text, reStructuredText and source code: verbatim, so that offsets and lines are the file's own."""

from __future__ import annotations

from typing import Final

from rag_stdlib.text.loaders.decoding import decode
from rag_stdlib.text.loaders.loaded import Loaded

_EXTENSIONS_OF: Final[dict[str, str]] = {
    "application/json": ".json .jsonl .ndjson .geojson .ipynb",
    "application/toml": ".toml",
    "application/x-sh": ".sh .bash .zsh .fish",
    "application/x-tex": ".tex .sty .bib",
    "application/xml": ".xml .xsd .xsl .svg .rss .atom",
    "application/yaml": ".yaml .yml",
    "text/css": ".css .scss .sass .less",
    "text/csv": ".csv",
    "text/javascript": ".js .mjs .cjs .jsx",
    "text/plain": ".txt .text .log .ini .cfg .conf .env .properties .diff .patch .cor .org .adoc .asciidoc",
    "text/tab-separated-values": ".tsv",
    "text/typescript": ".ts .mts .cts .tsx",
    "text/vcard": ".vcf",
    "text/calendar": ".ics",
    "text/x-c": ".c .h",
    "text/x-c++": ".cc .cpp .cxx .hh .hpp .hxx",
    "text/x-clojure": ".clj .cljs .edn",
    "text/x-cmake": ".cmake",
    "text/x-csharp": ".cs",
    "text/x-dart": ".dart",
    "text/x-elixir": ".ex .exs",
    "text/x-elm": ".elm",
    "text/x-erlang": ".erl .hrl",
    "text/x-fsharp": ".fs .fsi .fsx",
    "text/x-go": ".go",
    "text/x-graphql": ".graphql .gql",
    "text/x-haskell": ".hs .lhs",
    "text/x-java": ".java",
    "text/x-julia": ".jl",
    "text/x-kotlin": ".kt .kts",
    "text/x-lisp": ".lisp .el .scm",
    "text/x-lua": ".lua",
    "text/x-nix": ".nix",
    "text/x-objective-c": ".m .mm",
    "text/x-ocaml": ".ml .mli",
    "text/x-perl": ".pl .pm",
    "text/x-php": ".php",
    "text/x-protobuf": ".proto",
    "text/x-python": ".py .pyi .pyw",
    "text/x-r": ".r",
    "text/x-rst": ".rst .rest",
    "text/x-ruby": ".rb",
    "text/x-rust": ".rs",
    "text/x-scala": ".scala .sbt",
    "text/x-sql": ".sql",
    "text/x-swift": ".swift",
    "text/x-terraform": ".tf .hcl",
    "text/x-vue": ".vue .svelte",
    "text/x-zig": ".zig",
}
MEDIA_TYPES: Final[dict[str, str]] = {
    extension: media_type for media_type, extensions in _EXTENSIONS_OF.items() for extension in extensions.split()
}


def load(name: str, data: bytes, extension: str) -> Loaded:
    """Decode `data` and change nothing; an unknown or empty `extension` is ``text/plain``."""
    text, notes = decode(name, data)
    return Loaded(text, MEDIA_TYPES.get(extension, "text/plain"), notes=notes)
