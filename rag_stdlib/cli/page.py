"""The pages of `--help`: commands in the order in which one meets them, arguments under their bare names."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

_ORDER: Final = ("init", "ingest", "search", "get", "delete", "stats", "check", "compact", "reembed", "import", "doctor")


class Commands(TyperGroup):
    """The `rag` command itself."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - the toolkit's context is not public
        """List the commands for help and completion."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)


class Command(TyperCommand):
    """A command whose help shows INDEX where the toolkit would show {INDEX} and <str> with it."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - the toolkit's context is not public
        """Give the words of the usage line behind the command."""
        arguments = [str(param.metavar) for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write the arguments and options, each with its help."""
        params = self.get_params(ctx)
        arguments = [(str(param.metavar).strip("[]"), str(getattr(param, "help", ""))) for param in params
                     if param.param_type_name == "argument"]
        options = [record for param in params if param.param_type_name == "option"
                   and (record := param.get_help_record(ctx)) is not None]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
