"""A PDF of two pages, from the builder that the loaders' tests have."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def two_pages(first: str, second: str) -> bytes:
    spec = importlib.util.spec_from_file_location("pdf_builder_of_cli", Path(__file__).parents[1] / "text/loaders/pdf_builder.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built: bytes = module.build_pdf([[first], [second]])
    return built
