"""%jevlaya and %%jevlaya in a real IPython shell."""

from __future__ import annotations

import json
import re
import threading
import warnings
from pathlib import Path

import pandas as pd
import pytest
from fakes import make_agent
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from jevlaya_lab import Choice, Lab, Noul, Router, Trace, read_trace_csv, set_default_lab
from jevlaya_lab.experiments import NAMES, find
from jevlaya_lab.frames import read_csv
from jevlaya_lab.magics.states import read_cell

QUESTIONS = {"team": Choice("Which team?", ["alpha", "beta"]), "sure": Noul("Is it so?")}


@pytest.fixture(scope="module")
def bare_shell(tmp_path_factory):
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.ipython_dir = str(tmp_path_factory.mktemp("ipython"))
    config.InteractiveShell.colors = "nocolor"
    config.IPCompleter.use_jedi = False
    shell = InteractiveShell.instance(config=config)
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def ip(bare_shell):
    """A shell with the magics, an agent, a router, and a Lab of each."""
    router = Router(max_loaded=2)
    router.attach("english", make_agent())
    agent = make_agent()
    variables = {
        "agent": agent,
        "router": router,
        "lab": Lab(agent, capture="text"),
        "routing": Lab(router),
        "q": QUESTIONS,
    }
    bare_shell.push(variables)
    bare_shell.run_cell("%load_ext jevlaya_lab").raise_error()
    set_default_lab(variables["lab"])
    yield bare_shell
    set_default_lab(None)
    bare_shell.run_cell("%unload_ext jevlaya_lab").raise_error()
    bare_shell.reset(new_session=False)


class Ran:
    """What came of a cell."""

    def __init__(self, ip, cell):
        with capture_output() as seen:
            self.outcome = ip.run_cell(cell)
        self.value = self.outcome.result
        self.error = self.outcome.error_in_exec
        self.out, self.err, self.shown = seen.stdout, seen.stderr, seen.outputs


class See:
    """A hook that takes down the states."""

    def __init__(self, seen):
        self.seen = seen

    def on_predict_start(self, ctx):
        self.seen.extend(ctx.states)


@pytest.fixture
def run(ip):
    return lambda cell: Ran(ip, cell)


# --- loading, help ---------------------------------------------------------------------------


def test_unloading_leaves_nothing_and_loading_again_works(ip):
    manager = ip.input_transformer_manager
    n_transforms = len(manager.cleanup_transforms)
    ip.run_cell("%unload_ext jevlaya_lab").raise_error()
    assert len(manager.cleanup_transforms) == n_transforms - 1
    assert ip.find_line_magic("jevlaya") is ip.find_cell_magic("jevlaya") is None
    assert "%jevlaya" not in ip.strdispatchers["complete_command"].strs
    ip.run_cell("%load_ext jevlaya_lab").raise_error()
    ip.run_cell("%reload_ext jevlaya_lab").raise_error()
    assert len(manager.cleanup_transforms) == n_transforms
    assert hasattr(pd.Series, "jevlaya")


def test_help_lists_the_commands_and_their_options(ip, run):
    info = ip.object_inspect("%jevlaya")
    for part in ("ask        Ask typed questions", "%jevlaya export [-t NAME]", "--windows"):
        assert part in info["docstring"]
    assert "%jevlaya ask -q NAME" in run("%jevlaya ask -h").out
    assert "Cell magics: %%jevlaya ask" in run("%jevlaya --help").out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%jevlaya aks", "has no command 'aks'; did you mean ask?"),
        ("%jevlaya ask hi", "required: -q"),
        ("%jevlaya ask -q q --colour hi", "unrecognized arguments: --colour"),
        ("%jevlaya ask -q q --layout tall hi", "invalid choice: 'tall'"),
        ("%jevlaya ask -q nothing hi", "there is no variable and no JSON file of that name"),
        ("%jevlaya ask -q agent hi", "questions are a dict of id -> definition, got a Agent"),
        ("%jevlaya ask -q q", "states come as text, by -d, or from a cell"),
        ("%jevlaya ask -q q -d q hi", "got text and -d"),
        ("%jevlaya ask -q q -d nothing", "there is no variable 'nothing'"),
        ("%jevlaya ask -q q -s text hi", "-s names columns of a table"),
        ("%jevlaya ask -q q -o 1x hi", "no name of a variable"),
        ("%jevlaya ask -q q --model english hi", "this Lab asks an agent"),
        ("%jevlaya ask -q q 'hi", "No closing quotation"),
        ("%jevlaya ask -q broken hi", "question 'a': unknown type"),
        (
            "%jevlaya ask -q q --lab agent hi",
            "agent is a Agent, not a Lab; write agent = Lab(agent)",
        ),
        ("%jevlaya route hi", "this Lab asks an agent, which routes nothing"),
        ("%jevlaya load english", "load goes with a router"),
        ("%jevlaya load --lab routing nowhere", "nowhere"),
        ("%jevlaya load --lab routing --source x", "--source goes with one name"),
        ("%jevlaya config --lab nothing", "there is no variable 'nothing'"),
        ("%jevlaya config --lab lab --default", "exclude each other"),
        ("%jevlaya export trace.txt", "the name ends in .csv, .parquet or .json"),
        ("%jevlaya export --answers a.csv", "there are no answers yet"),
        ("%jevlaya export -t q a.csv", "a trace belongs here, got a dict"),
        ("%jevlaya diagram", "nothing was recorded yet"),
        ("%jevlaya experiment order", "there is no experiment 'order'; did you mean"),
        ("%jevlaya experiment eviction --max-load 1 --nope", "unrecognized arguments: --nope"),
        ("%jevlaya experiment eviction --max-loaded x", "invalid int value: 'x'"),
        ("%jevlaya experiment eviction --max-loaded 0", "max_loaded=0 is not between 1 and 64"),
        ("%jevlaya experiment eviction --pattern zip", "invalid choice: 'zip'"),
        ("%jevlaya experiment eviction --save a.txt", "the name ends in .csv, .png, .svg, .html"),
        ("%jevlaya experiment eviction --lab lab", "eviction is about the checkpoints of a Router"),
        ("%jevlaya experiment --save a.csv", "--save goes with the name of an experiment"),
        (
            "%jevlaya diagram -k timeline abc",
            "--kind timeline is of the whole trace; leave 'abc' out",
        ),
        ("%jevlaya examine", "the following arguments are required: NAME"),
        ("%jevlaya examine nope", "there is no variable 'nope'"),
        ("%jevlaya examine q", "it is a dict with none of the methods on_predict_start"),
        ("%jevlaya examine agent --slow x", "invalid float value: 'x'"),
        ("%jevlaya examine agent --save a.txt", "the name ends in .csv, .png, .svg, .html"),
        ("%jevlaya export a\0b.csv", "a name of a file holds no NUL character"),
        ("%jevlaya export a\0b.png", "a name of a file holds no NUL character"),
        ("%jevlaya diagram --save a\0b.png", "nothing was recorded yet"),
        ("%jevlaya load --lab routing new --source a\0b", "holds no NUL character"),
        ("%jevlaya ask -q a\0b x", "holds no NUL character"),
        ("%jevlaya ask -q q -o class x", "-o class: this is no name of a variable"),
        ("%%jevlaya export\nx", "export takes no cell"),
        ("%%jevlaya ask -q q\n \n", "the cell holds no states"),
        ("%%jevlaya trace --nope\nx = 1", "unrecognized arguments: --nope"),
    ],
)
def test_errors_are_one_line(ip, run, line, message):
    ip.push({"broken": {"a": {"type": "nuol"}}})
    ran = run(line)
    assert type(ran.error) is UsageError
    assert message in ran.err
    assert ran.err.startswith("UsageError: ")
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.out + ran.err
    assert ip.user_ns["lab"].trace.runs.empty


def test_an_error_of_a_users_hook_keeps_its_traceback(ip, run):
    class Broken:
        def on_predict_start(self, ctx):
            raise LookupError("lost")

    ip.user_ns["agent"].add_hook(Broken())
    ran = run("%jevlaya ask -q q hi")
    assert type(ran.error) is LookupError
    assert "Traceback" in ran.out


# --- asking ----------------------------------------------------------------------------------


def test_one_state_is_asked_about_as_it_is_written(ip, run):
    seen = []
    ip.user_ns["agent"].add_hook(See(seen))
    value = run("%jevlaya ask -q q I can't pay {q} $q").value
    assert value.columns.tolist() == ["team", "sure"]
    run("%jevlaya ask -q q 'two  words'")
    assert seen == ["I can't pay {q} $q", "two  words"]


def test_a_variable_is_asked_about_and_the_result_assigned(ip, run):
    ip.push({"table": pd.DataFrame({"text": ["aa", "bb"], "n": [1, 2]}, index=["x", "y"])})
    ran = run("%jevlaya ask -q q -d table -s text --detail -o answers")
    assert ran.value is None
    assert ip.user_ns["answers"].index.tolist() == ["x", "y"]
    assert ip.user_ns["answers"]["team"].tolist() == ["alpha", "beta"]
    assert "sure__confidence" in ip.user_ns["answers"]
    run("found = %jevlaya ask -q q -d table -s text -s n --layout long")
    assert len(ip.user_ns["found"]) == 4
    joined = run("%jevlaya ask -q q -d table -s text --join").value
    assert joined.columns.tolist() == ["text", "n", "team", "sure"]


def test_questions_come_from_a_json_file_too(ip, run, tmp_path):
    path = tmp_path / "my questions.json"
    path.write_text(json.dumps({"a": {"type": "noul", "instructions": "?"}}))
    assert run(f"%jevlaya ask -q '{path}' hi").value.columns.tolist() == ["a"]
    path.write_text("{")
    assert "the file is no JSON" in run(f"%jevlaya ask -q '{path}' hi").err


@pytest.mark.parametrize(
    ("cell", "options", "states", "said"),
    [
        ("aa, so\n\n  bb\n", "", ["aa, so", "bb"], "read as text, one state per line: 2"),
        ("a,b\nc,d", "-f text", ["a,b", "c,d"], ""),
        ('{"a": 1}\n["x", "y"]\n', "", [{"a": 1}, ["x", "y"]], "read as JSON, one state per line"),
        ('"a"\n7', "-f jsonl", ["a", 7], ""),
        ("id,text\n007,NA\n8,'b'", "", ["NA", "'b'"], "CSV, 2 rows, the state is column text"),
        ("id;note\n1;x\n2;y", "-s note", ["x", "y"], "read as CSV"),
        ("id\tnote\n1\tx\n2\ty", "", [{"id": "1", "note": "x"}, {"id": "2", "note": "y"}],
         "columns id, note"),
        ('text\n"two\nlines"\n', "-f csv", ["two\nlines"], "read as CSV, 1 rows"),
        ("Hello, you\nGood, bye", "", ["Hello, you", "Good, bye"], "read as text"),
    ],
)  # fmt: skip
def test_the_states_of_a_cell_are_read(ip, run, cell, options, states, said):
    seen = []
    ip.user_ns["agent"].add_hook(See(seen))
    ran = run(f"%%jevlaya ask -q q {options}\n{cell}")
    assert said in ran.out if said else "read as" not in ran.out
    assert seen == states
    assert len(ran.value) == len(states)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("-f jsonl\n{}\n\n{oops", "line 4 of the cell is no JSON"),
        ("-f csv\na,b\n1", "row 1 of the table has 1 cells, the head has 2"),
        ("-f csv\na,a\n1,2", "the same name: a, a"),
        ("-f csv\na", "then rows"),
        ('-f csv\na\n"open\nx\ny', "the row that begins on line 3 of the cell cannot be read"),
        ('-f csv\n\na,b\n1,2\n"x"y,3', "the row that begins on line 5 of the cell cannot"),
        ("-f jsonl\n" + "[" * 100_000, "line 2 of the cell is no JSON"),
        ("-s c\na,b\n1,2", "-s c: the table has no such column; it has a, b"),
        ("-f text -s c\na", "the cell is read as text"),
    ],
)
def test_cells_that_cannot_be_read_are_refused(run, cell, message):
    assert message in run(f"%%jevlaya ask -q q {cell}").err


@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_only_line_feeds_part_the_states_of_a_cell(form, newline, mark):
    states = [f"one{mark}two", "three"]
    lines = {
        "text": states,
        "jsonl": [f'"one{mark if mark > " " else "?"}two"', '"three"'],
        "csv": ["text,n", f'"one{mark}two",1', "three,2"],
    }[form]
    found = read_cell(newline.join(["", *lines, ""]), form, [])
    data = found.data if form != "csv" else found.data["text"]
    assert [each.replace("?", mark) for each in data] == states


def test_a_broken_quote_is_no_table_by_a_guess():
    assert read_cell('a,b\n1,"2\n3,4', None, []).data.tolist() == ["a,b", '1,"2', "3,4"]


def test_a_file_of_questions_nested_without_end_is_one_line(run, tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    ran = run(f"%jevlaya ask -q {tmp_path}/deep.json x")
    assert type(ran.error) is UsageError
    assert "the file is no JSON" in ran.err


@pytest.mark.parametrize("options", ["-h", "--help", "-o t --help"])
def test_help_of_a_traced_cell_runs_nothing(ip, run, options):
    ran = run(f"%%jevlaya trace {options}\nran = True\n")
    assert ran.error is None
    assert "--frame" in ran.out
    assert not {"ran", "t"} & set(ip.user_ns)
    assert ip.user_ns["lab"].trace.runs.empty


@pytest.mark.parametrize("between", ["", "\n"])
def test_another_cell_magic_may_follow_on_the_second_line(ip, run, between):
    ran = run(f"%%jevlaya trace -o t\n{between}%%time\nx = agent.predict('a', q)\n")
    assert ran.error is None
    assert "Wall time" in ran.out
    assert len(ip.user_ns["t"].runs) == 1
    run("%%jevlaya trace -o t\n%%jevlaya ask -q q -f text\none\ntwo\n")
    assert ip.user_ns["t"].runs["n_states"].tolist() == [2]


def test_options_of_a_router(ip, run):
    run("%jevlaya config --lab routing")
    value = run("%%jevlaya ask -q q -m english --detail\nhello\nbonjour").value
    assert value["routing_model"].tolist() == ["english", "english"]
    routed = run(
        "%%jevlaya route --explain\nWo bleibt mein Paket, ich warte seit drei Wochen?"
    ).value
    assert routed["model"].tolist() == ["multilingual"]
    assert "scripts" in routed
    assert run("%jevlaya route --lang de ok").value["reason"].str.startswith("explicit lang").all()


# --- tracing a cell --------------------------------------------------------------------------


def test_a_cell_is_traced_whatever_it_asks(ip, run):
    ran = run(
        "%%jevlaya trace -o t\n"
        "import asyncio\n"
        "agent.predict('one', q)\n"
        "await asyncio.sleep(0)\n"
        "await asyncio.to_thread(agent.predict, 'two', q)\n"
        "lab.predict(['three'], q)\n"
        "router.predict('Hello there my friend', q)['model']"
    )
    assert ran.error is None
    assert ran.value == "test"
    trace = ip.user_ns["t"]
    assert trace.runs["scope"].tolist() == ["agent"] * 3 + ["route", "router", "agent"]
    assert trace.runs["states"].dropna().tolist()[:3] == ['["one"]', '["two"]', '["three"]']
    assert trace.runs["forward_ms"].notna().sum() == 4


def test_without_o_the_trace_is_shown_after_the_cell(run):
    ran = run("%%jevlaya trace\nagent.predict('a', q)\n7")
    assert ran.value == 7
    assert "Trace(1 calls, 1 runs, 2 events)" in ran.shown[-1].data["text/plain"]
    assert "<table" in ran.shown[-1].data["text/html"]
    summary = run("%%jevlaya trace --frame summary\nagent.predict('a', q)").shown[-1]
    assert "p95_ms" in summary.data["text/html"]


@pytest.mark.parametrize("awaiting", ["", "import asyncio; await asyncio.sleep(0)\n"])
def test_a_cell_that_raises_leaves_its_trace(ip, run, awaiting):
    ran = run(
        f"%%jevlaya trace -o t\n{awaiting}agent.predict('a', q)\n1 / 0\nagent.predict('b', q)"
    )
    assert type(ran.error) is ZeroDivisionError
    assert len(ip.user_ns["t"].runs) == 1
    assert run("agent.predict('later', q)").error is None
    assert len(ip.user_ns["t"].runs) == 1
    assert len(ip.user_ns["lab"].trace.runs) == 1


def test_a_background_thread_is_not_mixed_in(ip, run):
    agent, stop, started = ip.user_ns["agent"], threading.Event(), threading.Event()

    def ask():
        while not stop.wait(0.001):
            agent.predict("background", QUESTIONS)
            started.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert started.wait(20)
    run("%%jevlaya trace -o t\nimport time\nagent.predict('mine', q)\ntime.sleep(0.05)")
    stop.set()
    thread.join(20)
    assert ip.user_ns["t"].runs["states"].tolist() == ['["mine"]']


def test_cells_inside_of_a_traced_cell(ip, run):
    run(
        "%%jevlaya trace -o outer\n"
        "agent.predict('a', q)\n"
        "_ = get_ipython().run_cell('%%jevlaya trace -o inner\\nagent.predict(\"b\", q)')\n"
        "agent.predict('c', q);"
    )
    assert ip.user_ns["outer"].runs["states"].tolist() == ['["a"]', '["b"]', '["c"]']
    assert ip.user_ns["inner"].runs["states"].tolist() == ['["b"]']


def test_code_that_another_magic_hands_over_is_traced(ip, run):
    ip.run_cell_magic("jevlaya", "trace -o t", "agent.predict('a', q)\n")
    assert len(ip.user_ns["t"].runs) == 1


def test_magics_inside_of_a_traced_cell_and_a_fresh_start(ip, run):
    run("agent.predict('before', q)\n%jevlaya ask -q q before")
    ran = run("%%jevlaya trace --clear -o t\n%jevlaya ask -q q mine")
    assert ran.value.shape == (1, 2)
    assert len(ip.user_ns["t"].runs) == len(ip.user_ns["lab"].trace.runs) == 1


def test_a_terminal_waits_for_the_code_of_the_cell(ip):
    assert ip.check_complete("%%jevlaya trace -o t\n")[0] == "incomplete"
    assert ip.check_complete("%%jevlaya trace -o t\nx = 1\n\n")[0] == "complete"


# --- the other commands ----------------------------------------------------------------------


def test_trace_and_status_give_objects(ip, run):
    run("%jevlaya ask -q q hi")
    assert run("%jevlaya").value is run("%jevlaya status").value is ip.user_ns["lab"]
    assert isinstance(run("%jevlaya trace").value, Trace)
    assert run("%jevlaya trace --frame calls").value.shape[0] == 1
    assert run("%jevlaya trace --clear").value is None
    assert run("%jevlaya trace --frame runs").value.empty


def test_files_are_written(ip, run, tmp_path):
    run("%jevlaya ask -q q hi")
    assert run(f"%jevlaya export {tmp_path}/t.csv").value == tmp_path / "t.csv"
    assert len(read_trace_csv(tmp_path / "t.csv").runs) == 1
    run(f"%jevlaya export {tmp_path}/t.parquet -o path")
    assert ip.user_ns["path"].exists()
    run(f"%jevlaya export '{tmp_path}/time line.json'")
    assert json.loads((tmp_path / "time line.json").read_text())["traceEvents"]
    run(f"%jevlaya export {tmp_path}/a.csv --answers")
    assert pd.read_csv(tmp_path / "a.csv").shape[0] == 1
    run(f"%jevlaya export {tmp_path}/run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    run("%%jevlaya trace -o t\n7")
    run(f"%jevlaya export -t t {tmp_path}/none.csv")
    assert read_trace_csv(tmp_path / "none.csv").runs.empty
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in run(f"%jevlaya export {tmp_path}/folder.csv").err


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("lifecycle", "Lifecycle of one run"),
        ("order", "Order of events and hooks"),
        ("timeline", "Timeline"),
        ("residency", "Residency of checkpoints"),
        ("distributions", "Distributions"),
    ],
)
def test_the_diagram_has_several_kinds(ip, run, tmp_path, kind, title):
    ip.user_ns["routing"].predict(["a"], QUESTIONS)
    run(f"%jevlaya diagram -k {kind} --lab routing -o picture --save {tmp_path}/p.svg")
    assert ip.user_ns["picture"].alt.startswith(title)
    assert f"<title>{title}" in (tmp_path / "p.svg").read_text(encoding="utf-8")


def test_the_diagram_is_a_picture(ip, run, tmp_path):
    run("%jevlaya ask -q q hi")
    run_id = ip.user_ns["lab"].trace.runs["run_id"].iloc[0]
    run(f"%jevlaya diagram {run_id[:8]} -o picture --save {tmp_path}/p.png")
    assert "1 state" in ip.user_ns["picture"].alt
    assert (tmp_path / "p.png").exists()


def test_checkpoints_are_loaded_and_let_go(ip, run):
    router = ip.user_ns["router"]
    assert run("%jevlaya unload --lab routing english").value is router
    assert router.loaded == []
    assert run("%jevlaya load --lab routing mine --source nowhere").err.startswith("UsageError: ")
    assert "mine" not in router.registered
    before = dict(router.models)
    assert run("%jevlaya load --lab routing ML --source nowhere").err.startswith("UsageError: ")
    assert router.models == before, "a name gets its former source back"
    router.attach("english", make_agent())
    assert run("%jevlaya load --lab routing english").value.loaded == ["english"]
    assert run("%jevlaya unload --lab routing").value.loaded == []


def test_the_lab_is_chosen_by_name(ip, run):
    assert run("%jevlaya config").value["lab"] == "the default Lab"
    run("%jevlaya config --lab routing -o found")
    assert ip.user_ns["found"]["agent"] is ip.user_ns["router"]
    ip.push({"routing": Lab(make_agent())})  # the variable counts, not what it once held
    assert run("%jevlaya").value is ip.user_ns["routing"]
    ip.del_var("routing")
    assert "there is no variable 'routing'" in run("%jevlaya").err
    assert run("%jevlaya config --default").value["lab"] == "the default Lab"


# --- the documentation -----------------------------------------------------------------------


def test_the_examples_of_the_documentation_run(ip, run, tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "docs" / "notebook.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(cells) == 9
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jevlaya_lab.Agent", lambda: make_agent())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The jevlaya_lab extension is already loaded")
        errors = [run(cell).outcome.error_in_exec for cell in cells]
    assert errors == [None] * len(cells)
    assert ip.user_ns["answers"].shape == (2, 2)
    assert len(ip.user_ns["trace"].runs) == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"trace.csv", "lifecycle.png"}
    assert ip.user_ns["tickets"].columns.tolist() == ["subject", "text", "team", "mood", "cancel"]


# --- experiments -----------------------------------------------------------------------------


def test_experiments_are_listed_with_what_they_are(run):
    listed = run("%jevlaya experiment").value
    assert listed.columns.tolist() == ["name", "title"]
    assert listed["name"].tolist() == list(NAMES)
    assert listed.set_index("name").loc["eviction", "title"].startswith("Eviction: loads")


def test_the_help_of_an_experiment_has_its_parameters(run):
    shown = run("%jevlaya experiment eviction -h").out
    assert "%jevlaya experiment eviction\n" in shown
    assert "--pattern {languages,round-robin,bursty,zipf}" in shown
    assert "--max-loaded INT [INT ...]" in shown
    assert "from 1 to 64" in shown
    assert "--no-defaults" in run("%jevlaya experiment hook_order --help").out
    assert "NAME -h` shows" in run("%jevlaya experiment -h").out


def test_an_experiment_gives_what_run_gives(ip, run, tmp_path, monkeypatch):
    monkeypatch.setattr(Router, "_build", lambda self, name, source: make_agent())
    line = "%jevlaya experiment eviction --max-loaded 1 2 --pattern bursty --n-requests 9 --seed 3"
    files = f"--save '{tmp_path / 'a.csv'}' --save '{tmp_path / 'a.png'}' --save '{tmp_path}/a.svg'"
    ran = run(f"{line} -o found {files}")

    assert ran.value is None
    found = ip.user_ns["found"]
    again = find("eviction").run(
        max_loaded=[1, 2], pattern="bursty", n_requests=9, seed=3, progress=False
    )
    counts = ["max_loaded", "policy", "loads", "evictions", "hit_rate"]
    pd.testing.assert_frame_equal(found.frame[counts], again.frame[counts])
    assert (found.parameters, found.seed) == (again.parameters, 3)
    pd.testing.assert_frame_equal(read_csv(tmp_path / "a.csv"), found.frame)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").exists()
    assert "Request by request" in run(f"found = {line}\nprint(found.summary())").out


def test_an_experiment_runs_on_the_lab_that_is_named_or_configured(ip, run):
    asked = "%jevlaya experiment failure --n-requests 3 -o found"
    run(f"{asked} --lab lab")
    assert ip.user_ns["found"].parameters["agent"] == "jevlaya_lab.Agent('test')"
    run("%jevlaya config --lab routing -o _")
    run(asked)
    assert ip.user_ns["found"].parameters["agent"] == "jevlaya_lab.Router"
    assert ip.user_ns["lab"].trace.runs.empty
    assert ip.user_ns["routing"].agent.hooks == []


def test_switches_have_a_way_back(ip, run):
    asked = "%jevlaya experiment hook_order --lab lab -o found"
    run(f"{asked} --no-defaults")
    assert ip.user_ns["found"].parameters["defaults"] is False
    run(f"{asked} --defaults")
    assert ip.user_ns["found"].parameters["defaults"] is True


# --- examine ---------------------------------------------------------------------------------


def test_examine_gives_what_the_doctor_found(ip, run, tmp_path):
    ip.push({"Seeing": See, "hook": See([])})

    ran = run(f"%jevlaya examine hook --slow 50 --save {tmp_path / 'found.png'} -o found")

    assert ran.error is None
    found = ip.user_ns["found"]
    assert found.parameters["hook"] == "See"
    assert found.parameters["slow_ms"] == 50.0
    assert found.found == ()
    assert (tmp_path / "found.png").stat().st_size > 0


# --- the tab key -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%jevlaya e", {"export", "experiment", "examine"}),
        ("%%jevlaya ", {"ask", "route", "trace"}),
        ("%jevlaya experiment evi", {"eviction"}),
        ("%jevlaya examine h", {"hook"}),
        ("%jevlaya examine hook --s", {"--slow", "--seed", "--save"}),
        ("%jevlaya examine -q ", {"q"}),
        ("%jevlaya experiment eviction --max", {"--max-loaded"}),
        ("%jevlaya experiment eviction --pattern z", {"zipf"}),
        ("%jevlaya experiment eviction --pattern zipf --lab r", {"routing"}),
        ("%jevlaya experiment evict --", set()),
        ("%jevlaya trace --", {"--frame", "--clear", "--lab", "--out"}),
        ("%jevlaya trace --frame ", {"runs", "calls", "events", "summary"}),
        ("%jevlaya ask -q ", {"q"}),
        ("%jevlaya ask -q q -d tab", {"table"}),
        ("%jevlaya config --lab ", {"lab", "routing"}),
        ("%jevlaya load t", {"typed-decisions"}),
        ("%jevlaya unload ", {"english"}),
        ("%jevlaya ask -q q -m m", {"multilingual"}),
        ("%jevlaya export -t ", {"recorded"}),
    ],
)
def test_the_tab_key(ip, run, line, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ip.push({"table": pd.DataFrame(), "recorded": Trace.from_records(), "other": {"a": 1}})
    ip.push({"hook": See([])})
    run("%jevlaya config --lab routing -o _")
    assert completed(ip, line) == found


def test_the_tab_key_makes_no_lab(ip, monkeypatch):
    set_default_lab(None)
    monkeypatch.setattr("jevlaya_lab.lab.default.Lab", None)
    assert completed(ip, "%jevlaya load eng") == {"english"}


def completed(ip, line):
    """What a frontend is offered at the end of a line."""
    with provisionalcompleter():
        return {each.text for each in ip.Completer.completions(line, len(line))}


def test_a_lab_over_layas_agent_is_heard_in_a_traced_cell(ip, run, tmp_path):
    import laya.agent
    from tiny import make_checkpoint

    theirs = laya.agent.Agent(str(make_checkpoint(tmp_path / "c")), device="cpu")
    ip.user_ns["theirs"] = Lab(theirs)
    run("%%jevlaya trace -o heard\ntheirs.predict(['x'], q)")

    assert ip.user_ns["heard"].runs["scope"].tolist() == ["agent"]
    assert len(ip.user_ns["theirs"].trace.runs) == 1
