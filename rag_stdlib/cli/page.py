"""The pages of `--help`: commands in the order in which one meets them, arguments under their bare names."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from typer import TyperException
from typer.core import TyperCommand, TyperGroup

_ORDER: Final[dict[str, tuple[str, ...]]] = {
    "rag": ("init", "ingest", "search", "answer", "get", "delete", "stats", "check", "compact", "reembed", "import", "corpus", "shard", "mesh", "verify", "keys",
            "log", "attack", "doctor", "record", "replay", "test", "trace"),
    "corpus": ("add", "sync", "status", "describe", "hash", "sign", "verify"),
    "shard": ("split", "of"),
    "mesh": ("key", "serve", "query", "answer", "status", "providers"),
    "keys": ("new", "rotate", "retire", "show"),
    "log": ("new", "append", "checkpoint", "prove", "check", "tiles", "witness", "monitor"),
    "trace": ("list", "show", "verify", "seal", "diff", "export-otel"),
}
_WORDS: Final = "rag_stdlib.words"  # of the command behind --


class Commands(TyperGroup):
    """The `rag` command itself, and the groups in it."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - the toolkit's context is not public
        """List the commands for help and completion."""
        return sorted(super().list_commands(ctx), key=_ORDER[str(self.name)].index)


class Command(TyperCommand):
    """A command whose help shows INDEX where the toolkit would show {INDEX} and <str> with it."""

    tail: ClassVar[str] = ""  # of the usage line

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - the toolkit's context is not public
        """Read the words; what is wrong with them is this command's error, and its page is named with it."""
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - the toolkit's context is not public
        """Give the words of the usage line behind the command."""
        params = self.get_params(ctx)
        needed = [f"{param.opts[0]} {param.metavar}" for param in params if param.param_type_name == "option" and param.required]
        arguments = [str(param.metavar) for param in params if param.param_type_name == "argument"]
        return ["[OPTIONS]", *needed, *arguments, *([self.tail] if self.tail else [])]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write the arguments and options, each with its help."""
        params = self.get_params(ctx)
        arguments = [(str(param.metavar).strip("[]"), str(getattr(param, "help", ""))) for param in params
                     if param.param_type_name == "argument"]
        options = [(record[0], record[1].removesuffix("  [required]").replace("; required]", "]")) for param in params if param.param_type_name == "option"
                   and (record := param.get_help_record(ctx)) is not None]  # the usage line says what is required
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Launcher(Command):
    """A command that runs another one: what stands behind -- is that one's, and is passed over here."""

    tail = "-- COMMAND..."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - the toolkit's context is not public
        """Keep the words behind the first --, and read the others."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_WORDS] = args[at + 1:]
        ctx.allow_extra_args = True
        extra = super().parse_args(ctx, args[:at])
        if extra and not ctx.resilient_parsing:
            ctx.fail(f"Got unexpected {extra[0]!r}: put -- before the command to run")
        return extra


class OptionalLauncher(Launcher):
    """A launcher that knows a command itself where none is given."""

    tail = "[-- COMMAND...]"


def words_behind(ctx: Any) -> list[str]:  # noqa: ANN401 - as above
    """Return the command behind --, as words; none where there is none."""
    return list(ctx.meta.get(_WORDS, ()))
