"""std/rag's chunk rules (§1.3), step by step and slowly, as the original goes; independent of the package."""

from __future__ import annotations

BLANK = frozenset(
    map(chr, [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]),
)


def original_spans(text: str, max_chars: int, overlap: int) -> list[tuple[int, int]] | None:
    """Return the trimmed spans, or None where the original repeats a chunk, goes back, or never ends."""
    size, overlap, start = len(text), min(overlap, max_chars - 1), 0
    spans: list[tuple[int, int]] = []
    while start < size:
        target = min(start + max_chars, size)
        end = target
        if target < size:
            earliest = start + max(1, (target - start) // 2)
            for cut in range(target - 1, earliest - 1, -1):
                if text[cut - 1] in ".!?\n":
                    end = cut
                    break
        left, right = start, end
        while left < right and text[left] in BLANK:
            left += 1
        while right > left and text[right - 1] in BLANK:
            right -= 1
        if left == right:
            start = target
            continue
        spans.append((left, right))
        if right == size:
            return spans
        start = max(0, right - overlap)
        if start <= left:
            return None
    return spans


def loses_text(text: str, spans: list[tuple[int, int]]) -> bool:
    """Tell whether a character that is not blank is in no span (the original skips whole windows)."""
    covered = {char for left, right in spans for char in range(left, right)}
    return any(char not in BLANK and place not in covered for place, char in enumerate(text))
