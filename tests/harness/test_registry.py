"""Parts are found by name without heavy imports; a broken plug-in is a warning that names it, never a crash."""

import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.harness.recipes import Method
from guidebench.harness.run import readiness
from tests.refusals import check_refused

JUDGE = """
    from dataclasses import dataclass
    from guidebench.harness.parts import ModelPart
    from guidebench.harness.registry import register

    @register.judge("mine")
    @dataclass(frozen=True)
    class Mine(ModelPart):
        '''A judge from outside.'''
        version = 1
        backend = "scripted"
"""


def test_finding_every_built_in_name_imports_nothing_heavy() -> None:
    program = (
        "import sys; from guidebench.harness import registry; [registry.names(kind) for kind in registry.KINDS];"
        "heavy = {'torch', 'numba', 'gymnasium', 'minigrid', 'pandas', 'matplotlib', 'pyarrow', 'hydra', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plug_in_is_found_by_name_and_listed(plugin) -> None:
    plugin("mine_module", JUDGE, {"judge": "mine"})
    assert registry.get("judge", "mine").backend == "scripted" and "mine" in registry.names("judge")


@pytest.mark.parametrize(
    ("source", "kind", "name", "says"),
    [
        (
            "raise RuntimeError('no such thing')",
            "method",
            "broken",
            r"plug-in 'broken' \(odd\) is broken and left out.*thing",
        ),
        ("", "replay", "nothing", r"odd \(.*odd\.py\) did not register the replay 'nothing'"),
        (JUDGE.replace('"mine"', '"sprite"'), "judge", "other", "registered twice"),
    ],
)
def test_a_plug_in_that_does_not_register_what_it_announces_is_named_and_left_out(
    plugin, source: str, kind: str, name: str, says: str
) -> None:
    plugin("odd", source, {kind: name})
    with pytest.warns(UserWarning, match=says):
        assert name not in registry.names(kind)
    assert len(registry.names(kind)) > 1


def test_a_module_that_breaks_leaves_the_rest_of_its_package_registered(plugin) -> None:
    files = {"__init__.py": JUDGE, "late.py": "import good\nraise RuntimeError('no such thing')"}
    plugin("good", files, {"judge": "mine", "chat": "broken = good.late"})
    with pytest.warns(UserWarning, match=r"plug-in 'broken' \(good.late\) is broken and left out"):
        registry.names("chat")
    assert registry.get("judge", "mine").backend == "scripted"


def test_a_name_that_no_entry_point_announces_is_told_with_the_line_that_is_missing(plugin) -> None:
    plugin("two_module", textwrap.dedent(JUDGE) + textwrap.dedent(JUDGE).replace("mine", "other"), {"judge": "mine"})
    with pytest.raises(
        UserError, match=r"judge 'other' is registered by two_module, .* add other = \"two_module\" to "
    ):
        registry.get("judge", "other")


REPLAY = """
from dataclasses import dataclass
from guidebench.harness.registry import get, register

@register.replay("mine")
@dataclass(frozen=True)
class Mine(get("replay", "uer")):
    \"\"\"Mine.\"\"\"
"""


def test_a_part_of_a_script_or_a_notebook_is_refused_while_a_command_is_planned(plugin) -> None:
    exec(REPLAY, {"__name__": "__main__"})
    words = ("suite=minigrid_doorkey", "profile=smoke", "replay=mine", "seeds=1")
    with pytest.raises(
        UserError, match=r"replay 'mine' is registered in a script or notebook, and workers .*`bench new` writes such"
    ):
        matrix.plan(words)


def test_a_part_that_no_entry_point_announces_is_refused_before_workers_start(plugin, tmp_path: Path) -> None:
    site = plugin("my_module", REPLAY, {})
    importlib.import_module("my_module")
    plan = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", "replay=mine", "seeds=1"])
    (reason,) = readiness.missing(plan, tmp_path)
    assert re.search(r"by my_module, but no entry point announces it; add mine = \"my_module\" to .*replays", reason)
    (site / "my_module-1.0.dist-info" / "entry_points.txt").write_text("[guidebench.replays]\nmine = my_module\n")
    os.utime(site)
    assert readiness.missing(plan, tmp_path) == []


def test_a_role_that_no_part_needs_is_refused_in_a_method(plugin) -> None:
    source = """
        from guidebench.harness.recipes import Method
        from guidebench.harness.registry import register

        register.method("mine")(Method(summary="mine", roles={"planer": "openai"}, citation="% a test"))
    """
    plugin("misspelt_module", source, {"method": "mine"})
    with pytest.raises(UserError, match="method 'mine' names 'openai' for the role 'planer', which no part needs"):
        matrix.plan(["suite=minigrid_doorkey", "method=mine", "profile=smoke"])


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("raise RuntimeError('no such thing')", "RuntimeError.'no such thing'."),
        ("import sys; sys.exit('no licence')", r"sys\.exit\('no licence'\)"),
    ],
)
def test_a_plug_in_that_breaks_after_it_registered_is_not_listed(plugin, end: str, says: str) -> None:
    plugin("half_module", textwrap.dedent(JUDGE) + f"\n{end}\n", {"judge": "mine"})
    with pytest.warns(UserWarning, match=f"plug-in 'mine' .half_module. is broken and left out: {says}"):
        assert "mine" not in registry.names("judge")
    check_refused(f"judge 'mine' is broken and cannot be used: {says}", registry.get, "judge", "mine")


@pytest.mark.parametrize(
    ("kind", "source", "says"),
    [
        ("judge", JUDGE.replace('backend = "scripted"', ""), "judge 'mine' has no backend"),
        ("judge", JUDGE.replace("@dataclass(frozen=True)", ""), "judge 'mine' is no dataclass"),
        (
            "guide",
            JUDGE.replace("judge", "guide")
            .replace("ModelPart", "AskingPart")
            .replace("= 1", "= 1; needs = {'chat': 'chat'}"),
            "guide 'mine' needs a chat as 'chat'; define .dialogue.",
        ),
        (
            "learner",
            JUDGE.replace("judge", "learner")
            .replace("ModelPart", "LearnerPart")
            .replace("= 1", "= 1; batch_size = 1; learning_starts = 1"),
            "learner 'mine' lacks seconds_per_action and seconds_per_step",
        ),
        (
            "judge",
            JUDGE.replace("version = 1", "version, needs = 1, {'planner': 'segmenter'}"),
            "judge 'mine' needs a segmenter in the role 'planner': this version has no such kind of part; the kinds",
        ),
        (
            "judge",
            JUDGE.replace("version = 1", "version, needs = 1, {'seeds': 'learner'}"),
            "needs a learner in the role 'seeds': this word is reserved in commands and records",
        ),
        (
            "judge",
            JUDGE.replace("version = 1", "version, needs = 1, {'variant': 'learner'}"),
            "needs a learner in the role 'variant': this word is reserved in commands and records",
        ),
        (
            "judge",
            JUDGE.replace("version = 1", "version, needs = 1, {'chat': 'learner'}"),
            "needs a learner in the role 'chat': a role called 'chat' must be of the kind 'chat'; choose another name",
        ),
        (
            "judge",
            JUDGE.replace("version = 1", "version, needs = 1, {'the planner': 'chat'}"),
            "needs a chat in the role 'the planner': a role is a word of lower-case letters",
        ),
        (
            "judge",
            JUDGE.replace("version = 1", "version, needs = 1, {'friend': 'human'}"),
            "needs a human in the role 'friend': the role of a person must be called 'human'",
        ),
        ("judge", JUDGE.replace("(ModelPart)", ""), "judge 'mine' does not inherit guidebench.harness.parts.ModelPart"),
        (
            "suite",
            JUDGE.replace("judge", "suite").replace("ModelPart", "SuitePart"),
            "suite 'mine' has no tasks and no profiles and no method",
        ),
        (
            "method",
            JUDGE.replace("judge", "method"),
            "method 'mine' is a type; register a guidebench.harness.recipes.Method",
        ),
        (
            "method",
            "from guidebench.harness.recipes import Method\nfrom guidebench.harness.registry import register\n"
            "register.method('mine')(Method('mine', roles={'planner': 3}))",
            "method 'mine' has 'planner': 3 among its roles; expected role -> name of a part",
        ),
        (
            "guide",
            JUDGE.replace("judge", "guide")
            .replace("ModelPart", "AskingPart")
            .replace("= 1", "= 1; needs = {'eye': 'embedder'}"),
            "guide 'mine' needs an embedder as 'eye'; define .dialogue.",
        ),
        (
            "guide",
            JUDGE.replace("judge", "guide")
            .replace("ModelPart", "AskingPart")
            .replace("= 1", "= 1; needs, later = {'reader': 'learner'}, {'reader': 'looks'}"),
            "guide 'mine' declares the role 'reader' as added .later., by the setting 'looks'; name a role of its",
        ),
    ],
)
def test_what_would_stop_a_listing_is_left_out(plugin, capsys, kind: str, source: str, says: str) -> None:
    plugin("poor_module", source, {kind: "mine"})
    with pytest.warns(UserWarning, match=f"plug-in 'mine' .poor_module. is broken and left out: .*{says}"):
        assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    assert "  mine " not in out and "  vlm_rb " in out


def test_a_broken_module_of_our_own_leaves_the_others_listed(tmp_path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "__init__.py").write_text("import no_such_module\n")
    program = (
        "from guidebench import methods; from guidebench.harness.commands import cli\n"
        f"methods.__path__.append({str(tmp_path)!r})\n"
        "print(cli.main(['list', 'method']), cli.main(['show', 'suite=minigrid_doorkey', 'method=half']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "  vlm_rb " in done.stdout and "  half " not in done.stdout and done.stdout.endswith("0 2\n")
    assert "bench: guidebench.methods.half is broken and left out: ModuleNotFoundError" in done.stderr
    assert "bench: method 'half' is broken and cannot be used: ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr


COMMAND = """
    '''A command from outside, 100 % of it.'''
    HELP = "does 100 % of it"

    def add_arguments(parser):
        parser.add_argument("word")

    def run(args):
        print("word", args.word)
        return 0
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (COMMAND.replace("HELP", "HELPP"), "has no HELP"),
        ("import sys; sys.exit(3)", r"sys\.exit\(3\)"),
        (COMMAND.replace('"word")', "word)"), "NameError"),
    ],
)
def test_a_broken_command_hurts_no_other(plugin, capsys, tmp_path, source: str, says: str) -> None:
    plugin("bad_command", source, {"command": "bad"})
    plugin("good_command", COMMAND, {"command": "good"})
    assert cli.main(["good", "day"]) == 0
    assert capsys.readouterr() == ("word day\n", "")
    assert cli.main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no study at" in (err := capsys.readouterr().err) and "bad" not in err
    assert cli.main([]) == 0  # printing the help loads all of them
    out, err = capsys.readouterr()
    assert "does 100 % of it" in out
    assert re.fullmatch(f"bench: plug-in command 'bad' is broken and left out: .*{says}.*\n", err)
    assert cli.main(["bad"]) == 2
    assert re.search(says, capsys.readouterr().err)


def test_a_command_of_ours_is_not_replaced(plugin, capsys) -> None:
    plugin("bad_command", COMMAND, {"command": "list"})
    assert cli.main([]) == 0
    assert "bench has a command 'list' of its own" in capsys.readouterr().err


def test_what_is_registered_in_a_fresh_registry_is_gone_after_it_with_what_was_derived_from_it() -> None:
    @registry.cached()
    def methods() -> list[str]:
        return registry.registered("method")

    before = methods()
    with registry.fresh():
        assert methods() == before
        registry.register.method("mine")(Method("of a test"))
        with registry.fresh():
            assert methods() == sorted([*before, "mine"])
            registry.register.method("inner")(Method("of a test"))
        assert methods() == sorted([*before, "mine"])
    assert methods() == before


def test_an_unknown_name_gets_the_nearest() -> None:
    check_refused("unknown method 'vlm-rb'; did you mean 'vlm_rb'", registry.get, "method", "vlm-rb")
