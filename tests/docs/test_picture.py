"""The picture in docs/architecture.md is what the imports say: every arrow, no other, and none in a circle."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ARROWS = set(re.findall(r"^    (\w+) --> (\w+)$", PAGE, re.MULTILINE))
ROOMS = {name: re.findall(r"`([\w/]+)`", files) for name, files in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE)}


def room_of(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] == "replay":
        return "replay"
    if parts[0] != "rag_stdlib":
        return None
    name = parts[1] if len(parts) > 1 else "__init__"
    found = [room for room, files in ROOMS.items() if name in files or f"{name}/" in files]
    assert len(found) == 1, f"{module} stands in {found or 'no room'} of docs/architecture.md"
    return found[0]


def imports() -> set[tuple[str, str]]:
    arrows = set()
    for file in [*ROOT.glob("rag_stdlib/**/*.py"), *ROOT.glob("replay/**/*.py")]:
        here = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                submodules = [alias.name for alias in node.names if (ROOT / "rag_stdlib" / f"{alias.name}.py").exists()]
                names = [f"rag_stdlib.{name}" for name in submodules] if node.module == "rag_stdlib" else [node.module]
            arrows |= {(here, room_of(name)) for name in names if room_of(name) not in (None, here)}
    return arrows


def test_the_arrows_drawn_are_the_imports_made() -> None:
    found = imports()
    assert len(found) > 15
    assert found == ARROWS


def test_no_arrow_runs_in_a_circle() -> None:
    order: list[str] = []
    left = set(ROOMS)
    while left:
        free = {room for room in left if not any(a == room and b in left for a, b in ARROWS)}
        assert free, f"a circle among {sorted(left)}"
        order += sorted(free)
        left -= free
    assert order.index("base") < order.index("index") < order.index("cli")


def test_the_table_names_every_room_and_file() -> None:
    assert {room for arrow in ARROWS for room in arrow} == set(ROOMS)
    for files in ROOMS.values():
        for name in files:
            places = [ROOT / "rag_stdlib" / f"{name}.py", ROOT / "rag_stdlib" / name, ROOT / name]
            assert any(place.exists() for place in places), name
