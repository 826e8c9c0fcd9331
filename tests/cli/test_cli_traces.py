"""`rag trace`: what is listed and shown, what a check says, and the spans that go out."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from programs import Run, recording, runner

from rag_stdlib.cli import spans
from rag_stdlib.cli.terminal import cells
from replay.redaction.redactor import Redactor
from replay.tracefile.trace import load_trace
from replay.tracefile.writer import TraceWriter

Write = Callable[..., Path]


@pytest.fixture
def run(folder: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(folder, capfd)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return recording(tmp_path_factory.mktemp("recording"), "a", "b", "exit3")


@pytest.fixture
def trace(folder: Path, text: bytes) -> Path:
    path = folder / "t.jsonl"
    path.write_bytes(text)
    return path


def write_trace(path: str, *calls: tuple[str, list[Any], Any], **options: Any) -> None:
    """Write a trace of these calls: (tool, arguments, result)."""
    writer = TraceWriter.create(path, agent="main", args=[], redactor=Redactor(environ={}), **options)
    for tool, args, result in calls:
        step = writer.append("tool_call", {"tool": tool, "args": args})
        writer.append("tool_result", {"tool": tool, "result": result, "call": step})
    writer.complete(ok=True)


def one_line(text: str) -> str:
    assert len(text.splitlines()) == 1
    return text


class TestList:
    """`rag trace list`."""

    @pytest.fixture
    def traces(self, folder: Path, text: bytes) -> Path:
        where = folder / "traces"
        (where / "below").mkdir(parents=True)
        (where / "good.jsonl").write_bytes(text)
        (where / "below" / "not.jsonl").write_bytes(text)
        (where / "cut.jsonl").write_bytes(text[:-200])
        (where / "bad\x1b[2J.jsonl").write_bytes(b"{nonsense\n" + text)
        (where / "empty.jsonl").touch()
        (where / "folder.jsonl").mkdir()
        (where / "notes.txt").write_text("x")
        return where

    def test_each_trace_is_a_line_in_order_with_its_state(self, run: Run, traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert traces.name == "traces", "the default, where it is there"
        monkeypatch.delenv("COLUMNS")
        done = run("trace", "list")
        assert done.code == 3, "some cannot be read"
        lines = done.out.splitlines()
        assert re.split(r" {2,}", lines[0]) == ["file", "started (UTC)", "agent", "calls", "size", "state"]
        assert [line.split()[0] for line in lines[1:]] == ["bad\ufffd[2J.jsonl", "cut.jsonl", "empty.jsonl", "folder.jsonl", "good.jsonl"]
        states = dict(zip(("bad", "cut", "empty", "folder", "good"), (re.split(r" {2,}", line)[-1] for line in lines[1:]), strict=True))
        assert states["good"] == "complete (exit code 3)"
        assert states["cut"] == "unfinished"
        assert states["empty"] == "unreadable: the trace is empty"
        assert states["bad"].startswith("unreadable: line 1: the line failed to parse as JSON (")
        assert states["folder"].startswith("unreadable: ")

    @pytest.mark.parametrize("width", ["40", "60", "80", "120"])
    def test_the_table_fits(self, run: Run, traces: Path, monkeypatch: pytest.MonkeyPatch, width: str, text: bytes) -> None:
        monkeypatch.setenv("COLUMNS", width)
        (traces / f"{'長い名前' * 20}.jsonl").write_bytes(text)
        (traces / "good.jsonl").rename(traces / "a-name-of-one-of-many.jsonl")
        lines = run("trace", "list").out.splitlines()
        assert all(sum(map(cells, line)) <= int(width) for line in lines)
        assert [line for line in lines if line.startswith("a-name-of-")], "the beginning of a name stays"
        assert " ".join("\n".join(lines).split()).count("the trace is") == 1 or width == "40"
        assert "長い" in lines[-1] or "長い" in lines[-2]

    def test_a_file_or_pipe_gets_all_of_it(self, run: Run, traces: Path, monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
        monkeypatch.delenv("COLUMNS")
        name = f"{'n' * 200}.jsonl"
        (traces / name).write_bytes(text)
        found = run("trace", "list").out
        assert name in found
        assert "…" not in found
        long = [("tool", ["x" * 3000], ["y" * 3000])]
        write_trace("long.jsonl", *long)
        write_trace("longer.jsonl", *[("tool", ["x" * 3000], ["z" * 3000])])
        for done in (run("trace", "show", "long.jsonl"), run("trace", "diff", "long.jsonl", "longer.jsonl")):
            assert "x" * 3000 in done.out
            assert "y" * 3000 in done.out

    def test_as_json(self, run: Run, traces: Path) -> None:
        found = {one["file"]: one for one in run("trace", "list", str(traces), "--json").json}
        good = found["good.jsonl"]
        assert (good["state"], good["ok"], good["error"], good["calls"], good["events"]) == ("complete", False, "exit code 3", 2, 8)
        assert good["bytes"] == (traces / "good.jsonl").stat().st_size
        assert (found["cut.jsonl"]["state"], found["cut.jsonl"]["ok"]) == ("unfinished", None)
        assert found["empty.jsonl"]["problem"] == "the trace is empty"

    def test_without_a_folder_of_that_name_it_is_the_working_directory(self, run: Run, trace: Path) -> None:
        assert trace.name in run("trace", "list").out
        trace.unlink()
        nothing = run("trace", "list")
        assert (nothing.code, nothing.out, nothing.err) == (0, "", "rag: note: no traces in '.'\n")

    @pytest.mark.parametrize(("name", "said"), [("gone", "'gone' does not exist; name a folder that holds traces"),
                                               ("prog.py", "'prog.py' is no folder; name a folder that holds traces")])
    def test_a_folder_that_is_none(self, run: Run, name: str, said: str) -> None:
        refused = run("trace", "list", name)
        assert (refused.code, refused.out, refused.err) == (1, "", f"rag: error: {said}\n")

    def test_times_that_no_calendar_has(self, run: Run, folder: Path) -> None:
        write_trace(str(folder / "far.jsonl"), clock_ms=lambda: 2**63)
        assert re.search(r"far\.jsonl +- +main", run("trace", "list").out)


class TestShow:
    """`rag trace show`."""

    def test_a_timeline(self, run: Run, trace: Path) -> None:
        done = run("trace", "show", trace.name)
        assert (done.code, done.err) == (0, "")
        assert re.search(r'3 +tool +search \["a",3\] -> ', done.out)
        assert re.search(r"7 +end +failed exit code 3", done.out)

    def test_one_event_whole(self, run: Run, trace: Path) -> None:
        event = run("trace", "show", trace.name, "--step", "4").json
        assert (event["kind"], event["result"], event["call"]) == ("tool_result", ["a-0", "a-1", "a-2"], 3)
        refused = run("trace", "show", trace.name, "--step", "8")
        assert (refused.code, refused.err) == (1, "rag: error: there is no step 8 in 't.jsonl'; give one from 0 to 7\n")
        trace.write_bytes(trace.read_bytes() + b'{"kind":"newer","seq":8}\n')
        assert "a kind that is not known here" in run("trace", "show", trace.name, "--step", "8").err

    def test_all_events_as_json(self, run: Run, trace: Path, folder: Path) -> None:
        assert [event["seq"] for event in run("trace", "show", trace.name, "--json").json] == list(range(8))
        (folder / "more.jsonl").write_bytes(trace.read_bytes() + b"{\n")
        assert run("trace", "show", "more.jsonl", "--json").code == 3

    @pytest.mark.parametrize(("content", "code"), [
        (b"", "trace_empty"), (b"\n \n", "trace_empty"), (b"{", "trace_empty"), (b'{"kind":"novel"}\n', "trace_header"),
        (b'{"kind":"clock_read","ts_ms":1,"run_id":"r","source":"wall","value":1}\n', "trace_header"), (b"no JSON\n", "trace_line"),
    ])
    def test_what_holds_no_trace_is_3_whatever_is_asked(self, run: Run, trace: Path, folder: Path, content: bytes, code: str) -> None:
        """Finding R2-12."""
        (folder / "no.jsonl").write_bytes(content)
        for arguments in (("show", "no.jsonl"), ("show", "no.jsonl", "--json"), ("show", "no.jsonl", "--step", "0"), ("verify", "no.jsonl"),
                          ("diff", "no.jsonl", trace.name), ("diff", trace.name, "no.jsonl"), ("export-otel", "no.jsonl", "--output", "x")):
            refused = run("trace", *arguments)
            assert (refused.code, refused.out) == (3, ""), arguments
            assert one_line(refused.err).startswith(f"rag: error [{code}]: trace 'no.jsonl': "), arguments
        assert run("trace", "list", ".").code == 3
        assert run("trace", "list", ".", "--json").code == 3
        assert run("replay", "no.jsonl").code == 3

    def test_what_a_trace_holds_cannot_act_on_a_terminal(self, run: Run) -> None:
        write_trace("t.jsonl", ("say", ["\x1b[2J\x9b\u202e"], "\x1b]0;x\x07"))
        for options in ((), ("--json",), ("--step", "3")):
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", run("trace", "show", "t.jsonl", *options).out)

    @pytest.mark.parametrize("options", [(), ("--json",), ("--step", "1")])
    def test_one_that_cannot_be_read_is_3(self, run: Run, trace: Path, options: tuple[str, ...]) -> None:
        refused = run("trace", "show", "gone.jsonl", *options)
        assert (refused.code, one_line(refused.err).startswith("rag: error [trace_missing]: ")) == (3, True)
        trace.write_bytes(b"{\n")
        assert run("trace", "show", trace.name, *options).code == 3


class TestVerify:
    """`rag trace verify` and `rag trace seal`."""

    def test_an_intact_one_says_what_that_does_not_prove(self, run: Run, trace: Path) -> None:
        done = run("trace", "verify", trace.name)
        assert (done.code, done.out) == (0, "intact: 8 events, complete\nseal: none; a hash chain alone cannot tell who wrote the trace\n")

    @pytest.mark.parametrize(("change", "said"), [
        (lambda lines: [line.replace(b"a-1", b"a-2") for line in lines], "does not hold at line 5: the line was changed: "),
        (lambda lines: [*lines[:3], *lines[4:]], "does not hold at line 4: a line is missing, doubled or out of place: "),
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], "does not hold at line 5: "),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "does not hold at line 4: "),
        (lambda lines: [*lines[:3], b'{"kind":"x"}', *lines[3:]], "does not hold at line 4: "),
        (lambda lines: lines[:-1], "cut off before line 8: there is no run_completed; the 7 events before it hold"),
        (lambda lines: [re.sub(rb',"seq":.*', b"}", line) for line in lines], "cannot tell: the trace carries no hash chain"),
    ], ids=["flipped", "dropped", "doubled", "reordered", "inserted", "cut", "without a chain"])
    def test_what_does_not_hold_is_1_with_its_line(self, run: Run, trace: Path, change: Any, said: str) -> None:
        """Row 46."""
        trace.write_bytes(b"".join(line + b"\n" for line in change(trace.read_bytes().split(b"\n")[:-1])))
        done = run("trace", "verify", trace.name)
        assert done.code == 1
        assert one_line(done.out).startswith(said)
        assert str(trace) not in done.out
        told = run("trace", "verify", trace.name, "--json")
        assert (told.code, told.json["ok"] and told.json["complete"]) == (1, False)

    def test_a_torn_tail_is_told(self, run: Run, trace: Path) -> None:
        trace.write_bytes(trace.read_bytes()[:-20])
        done = run("trace", "verify", trace.name)
        assert (done.code, done.err.startswith("rag: note: line 8 was cut off")) == (1, True)

    def test_one_that_cannot_be_read_is_3(self, run: Run) -> None:
        refused = run("trace", "verify", "gone.jsonl")
        assert (refused.code, one_line(refused.err).startswith("rag: error [trace_missing]: ")) == (3, True)

    def test_a_seal_is_valid_unchecked_missing_or_another_ones(self, run: Run, trace: Path, text: bytes, folder: Path) -> None:
        sealed = run("trace", "seal", trace.name, "--key", "key", "--make-key")
        key = sealed.out.split()[-1]
        assert (sealed.code, sealed.out) == (0, f"sealed by key {key}\n")
        assert sealed.err == f"rag: note: made key {key}: keep key, give key.pub to those who verify\n"
        assert run("trace", "seal", trace.name, "--key", "key").out == f"sealed already by key {key}\n"
        assert run("trace", "verify", trace.name).out.splitlines()[1] == f"seal: by key {key}, not checked; give its public key with --key"
        valid = run("trace", "verify", trace.name, "--key", "key.pub")
        assert (valid.code, valid.out.splitlines()[1]) == (0, f"seal: valid, by key {key}, whose holder vouches for every line")
        other = run("trace", "seal", trace.name, "--key", "other", "--make-key")
        assert (other.code, "[trace_exists]" in other.err) == (1, True)
        assert run("trace", "verify", trace.name, "--key", "other.pub").out.startswith("does not hold at line 8: the trace was sealed with the key")
        assert run("trace", "seal", trace.name, "--key", "other", "--force").code == 0
        (folder / "plain.jsonl").write_bytes(text)
        missing = run("trace", "verify", "plain.jsonl", "--key", "key.pub")
        assert (missing.code, missing.out) == (1, "not sealed: the trace carries no seal\n")

    def test_what_cannot_be_sealed(self, run: Run, trace: Path) -> None:
        refused = run("trace", "seal", trace.name, "--key", "gone")
        assert (refused.code, one_line(refused.err)) == (1, "rag: error: key 'gone': there is no such file; make one with: rag trace seal TRACE --key gone --make-key\n")
        run("trace", "seal", trace.name, "--key", "key", "--make-key")
        refused = run("trace", "seal", trace.name, "--key", "key", "--make-key")
        assert (refused.code, "never overwritten" in one_line(refused.err)) == (1, True)
        trace.write_bytes(trace.read_bytes().rpartition(b'{"kind":"run_completed"')[0])
        refused = run("trace", "seal", trace.name, "--key", "key")
        assert (refused.code, "[trace_incomplete]" in one_line(refused.err)) == (3, True)
        refused = run("trace", "seal", trace.name, "--key", "fresh", "--make-key")
        assert (refused.code, "trace 't.jsonl': " in one_line(refused.err)) == (3, True)
        assert not Path("fresh").exists(), "no key is made for nothing"


def test_two_runs_side_by_side(run: Run, trace: Path) -> None:
    """Row 43."""
    write_trace("one.jsonl", ("search", ["a"], [1]), clock_ms=lambda: 1)
    write_trace("same.jsonl", ("search", ["a"], [1]), clock_ms=lambda: 2)
    write_trace("other.jsonl", ("search", ["a"], [2]))
    same, other = run("trace", "diff", "one.jsonl", "same.jsonl"), run("trace", "diff", "one.jsonl", "other.jsonl")
    assert (same.code, same.out.splitlines()[-1]) == (0, "The runs are the same.")
    assert (other.code, other.out.splitlines()[-1]) == (1, "The runs differ.")
    refused = run("trace", "diff", trace.name, "gone.jsonl")
    assert (refused.code, one_line(refused.err).startswith("rag: error [trace_missing]: ")) == (3, True)


HIT = {"chunk_id": "d:0", "score": 0.5, "text": "canary"}


class TestSpans:
    """`rag trace export-otel`."""

    @pytest.fixture
    def searched(self, folder: Path) -> Path:
        write_trace(str(folder / "s.jsonl"), ("rag_search", ["x.db", "when canary", 4], {"tag": "ok", "value": [HIT]}),
                    ("rag_query", ["x.db", "when", 5, {}], {"tag": "err", "err": "no", "code": "c", "fix": "caller"}), ("other", [1], 2))
        return folder / "s.jsonl"

    @staticmethod
    def spans(path: Path) -> list[dict[str, Any]]:
        return [span for line in path.read_text().splitlines() for one in json.loads(line)["resourceSpans"]
                for scope in one["scopeSpans"] for span in scope["spans"]]

    def test_a_file_holds_the_spans_as_otlp_json(self, run: Run, searched: Path, folder: Path) -> None:
        done = run("trace", "export-otel", searched.name, "--output", "spans.json")
        assert (done.code, done.out) == (0, "4 spans exported\n")
        found = self.spans(folder / "spans.json")
        assert [span["name"] for span in found] == ["retrieval", "retrieval", "execute_tool other", "invoke_agent main"]
        assert all(re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"]) for span in found)
        assert {span["parentSpanId"] for span in found[:3]} == {found[3]["spanId"]}
        attributes = {one["key"]: one["value"] for one in found[0]["attributes"]}
        assert attributes["gen_ai.operation.name"] == {"stringValue": "retrieval"}
        assert attributes["gen_ai.retrieval.top_k"] == {"intValue": "4"}
        assert "canary" not in (folder / "spans.json").read_text(), "bodies are off by default"

    def test_with_bodies_the_query_and_the_hits_are_named(self, run: Run, searched: Path, folder: Path) -> None:
        assert run("trace", "export-otel", searched.name, "--output", "spans.json", "--bodies").code == 0
        attributes = {one["key"]: one["value"] for one in self.spans(folder / "spans.json")[0]["attributes"]}
        assert attributes["gen_ai.retrieval.query.text"] == {"stringValue": "when canary"}
        assert json.loads(attributes["gen_ai.retrieval.documents"]["stringValue"]) == [{"id": "d:0", "score": 0.5}]

    def test_what_is_no_search_is_described_as_any_tool(self, searched: Path) -> None:
        write_trace("odd.jsonl", ("rag_search", ["x.db"], None))
        describe = spans.describe(bodies=True)
        assert describe(load_trace("odd.jsonl").calls[0]) == {}
        _, failed, other = load_trace(searched).calls
        assert describe(failed)["gen_ai.retrieval.documents"] is None
        assert describe(other) == {}

    @pytest.fixture
    def collector(self) -> Iterator[tuple[str, list[str]]]:
        asked: list[str] = []

        class Collector(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                asked.append(self.path)
                self.send_response(200 if len(asked) == 1 else 400)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Collector)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()
        server.server_close()

    def test_they_are_sent_to_an_endpoint(self, run: Run, searched: Path, collector: tuple[str, list[str]]) -> None:
        url, asked = collector
        assert run("trace", "export-otel", searched.name, "--endpoint", url).out == "4 spans exported\n"
        assert asked == ["/v1/traces"]
        refused = run("trace", "export-otel", searched.name, "--endpoint", url)
        assert (refused.code, one_line(refused.err).startswith("rag: error: the exporter did not take 4 spans")) == (1, True)

    @pytest.mark.parametrize("options", [(), ("--endpoint", "http://127.0.0.1:1", "--output", "x")])
    def test_one_place_is_needed(self, run: Run, searched: Path, options: tuple[str, ...]) -> None:
        refused = run("trace", "export-otel", searched.name, *options)
        assert (refused.code, refused.err) == (2, "rag: usage: give one of --endpoint and --output; see rag trace export-otel --help\n")

    @pytest.mark.parametrize(("options", "code", "said"), [
        (("--endpoint", "nowhere"), 1, "is no http or https URL"), (("--output", "prog.py/x"), 1, "'prog.py/x' cannot be written"),
    ])
    def test_what_goes_wrong_is_one_line(self, run: Run, searched: Path, options: tuple[str, ...], code: int, said: str) -> None:
        refused = run("trace", "export-otel", searched.name, *options)
        assert (refused.code, said in one_line(refused.err)) == (code, True)
        assert run("trace", "export-otel", "gone.jsonl", "--output", "x").code == 3
        assert not Path("x").exists()

    def test_a_trace_of_another_recorder_has_spans_too(self, run: Run, folder: Path) -> None:
        """Finding R2-16."""
        events: list[dict[str, Any]] = [
            {"kind": "schema_header", "version": 2, "writer": "another-vm"}, {"kind": "seed_read", "purpose": "rollout_default_seed", "value": 7},
            {"kind": "run_started", "agent": "main", "args": []}, {"kind": "tool_call", "tool": "t", "args": [1]},
            {"kind": "tool_result", "tool": "t", "result": 2}, {"kind": "run_completed", "ok": True, "result": None}]
        (folder / "f.jsonl").write_text("".join(json.dumps({"ts_ms": at, "run_id": "r", **event}) + "\n" for at, event in enumerate(events)))
        done = run("trace", "export-otel", "f.jsonl", "--output", "new/spans.json")
        assert (done.code, done.out) == (0, "2 spans exported\n")

    def test_without_the_sdk_it_says_what_to_install(self, run: Run, searched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace.export", None)
        refused = run("trace", "export-otel", searched.name, "--output", "x")
        assert (refused.code, "pip install 'rag-stdlib[otel]'" in one_line(refused.err)) == (1, True)


def test_the_group_alone_shows_its_page(run: Run) -> None:
    bare = run("trace")
    assert (bare.code, bare.out) == (2, "")
    listed = re.findall(r"^  ([a-z-]+) {2,}", bare.err[bare.err.index("Commands:"):], re.MULTILINE)
    assert listed == ["list", "show", "verify", "seal", "diff", "export-otel"]


@pytest.mark.parametrize("width", ["60", "80", "140"])
@pytest.mark.parametrize("command", ["list", "show", "verify", "seal", "diff", "export-otel"])
def test_every_page_fits(run: Run, monkeypatch: pytest.MonkeyPatch, command: str, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    page = run("trace", command, "--help")
    assert (page.code, page.err) == (0, "")
    assert all(sum(map(cells, line)) <= min(int(width), 102) for line in page.out.splitlines())
    assert not re.search(r"[{}]|<str>|list\[|\[required\]|\.\.\.\.|\[\[", page.out)
