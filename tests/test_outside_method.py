"""A method as one folder outside the tree: it needs two embedders and a chat, notes rows, and adds a report section."""

import json
import re
import signal
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.identity import digests
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.loop.backends import process_groups
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run import readiness
from guidebench.results.verification import reasking
from guidebench.results.verification.configuration import configuration
from tests import programs
from tests.harness.models.canned import completion, serving

FOLDER = {
    "__init__.py": '''
        """Scouting: two embedders see and read, a chat plans, and what they say is a bonus."""

        from collections.abc import Mapping
        from dataclasses import dataclass
        from typing import ClassVar

        from guidebench.harness.logs import Column, Log, amount, count
        from guidebench.harness.parts import AskingPart
        from guidebench.harness.recipes import Method
        from guidebench.harness.registry import register


        @register.guide("scouting")
        @dataclass(frozen=True)
        class Scouting(AskingPart):
            """Adds a bonus that three models agree on."""

            every: int = 20
            """Environment steps between two questions (choice)."""

            version: ClassVar[int] = 1
            citation: ClassVar[str] = "% a test"
            needs: ClassVar[Mapping[str, str]] = {"seer": "embedder", "reader": "embedder", "planner": "chat"}
            shows_frames: ClassVar[bool] = True
            logs: ClassVar[Mapping[str, Log]] = {
                "sightings": Log(
                    "what one of the models said",
                    {"role": Column(str, "who"), "number": count("of the answer"), "bonus": amount("its bonus")},
                )
            }

            def spawn(self, build):
                from scouting.guide import Scout

                return Scout(self.every, build.rows)

            def dialogue(self, suite, task, role):
                from scouting.guide import Plan, See

                return Plan() if role == "planner" else See(role)


        register.method("scouting")(
            Method(
                summary="asks three models", suite="minigrid_doorkey", guide="scouting", citation="% a test",
                roles={"planner": "openai"},
                ablations={"planner=local": {"planner": "transformers"}, "reader=large": {"reader.model": "large"}},
            )
        )
    ''',
    "guide.py": """
        import json

        import numpy as np

        from guidebench.baselines.guiding import BaseGuide
        from guidebench.harness.models.calls import ChatCall, EmbedCall, Message
        from guidebench.harness.interfaces import Question


        class Scout(BaseGuide):
            wants_snapshots = True

            def __init__(self, every, rows):
                self.every, self.sums, self.heard = every, np.zeros(rows), np.zeros(rows, int)

            def observed(self, slot, transition, store, ctx):
                if ctx.step % self.every:
                    return
                for row in range(len(self.sums)):
                    key, nothing = np.array([ctx.step]), np.zeros((1, 0), bool)
                    ctx.ask(Question(row, key, transition.snapshot[row][None], nothing, "null", "seer"))
                    ctx.ask(Question(row, key, None, nothing, json.dumps(f"step {ctx.step}"), "reader"))
                    ctx.ask(Question(row, key, None, nothing, json.dumps(ctx.step), "planner"))

            def answered(self, answers, store, ctx):
                for question, answer in answers:
                    bonus, row = float(answer.value), question.row
                    said = {"role": question.to, "number": int(self.heard[row]), "bonus": bonus}
                    ctx.note("sightings", row, said)
                    self.sums[row] += bonus
                    self.heard[row] += 1

            def shape(self, batch):
                mean = (self.sums / np.maximum(self.heard, 1)).astype(np.float32)
                return batch._replace(reward=batch.reward + mean[:, None])

            def state(self, row):
                return {"sum": float(self.sums[row]), "heard": int(self.heard[row])}

            def load_state(self, row, state):
                self.sums[row], self.heard[row] = state["sum"], state["heard"]


        class See:
            calls = 1

            def __init__(self, role):
                self.role = role

            async def __call__(self, content, frames, ask):
                told = await ask(EmbedCall(tuple(frames) if self.role == "seer" else (content,)))
                return None if told.failure else float(np.abs(told.value[0]).mean())


        class Plan:
            calls = 1

            async def __call__(self, content, frames, ask):
                told = await ask(ChatCall((Message("user", (f"How good is step {content}?",)),)))
                return None if told.failure else int(told.value) / 100
    """,
    "report.py": """
        from guidebench.reports.summary import grids
        from guidebench.reports.summary.grids import Grid
        from guidebench.reports.sections import Section


        def load(source):
            rows = source.rows("sightings")
            said = rows.groupby(["cell", "role"])
            return {who: mine.groupby("seed")["bonus"].mean() for who, mine in said}, source


        def tables(found):
            means, source = found
            lines = {
                f"{source.labels[cell]}, {role}": (grids.over_runs(values, source.resamples, cell + role),)
                for (cell, role), values in means.items()
            }
            return [Grid("Sightings", ("mean bonus",), lines, "Means over seeds.")]


        SECTIONS = (
            Section(
                name="sightings", title="Sightings", order=650, needs=("sightings",), words="Who said what.", load=load,
                tables=tables, plain=lambda found: sorted(role for _, role in found[0]),
            ),
        )
    """,
}
TINY = (
    "method=scouting", "task=5x5", "profile=smoke", "models=paper", "drawing.tile_size=8", "training.steps=400",
    "evaluation.every=200", "evaluation.episodes=2", "learner.channels=4", "learner.features=8", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=40", "seeds=2",
)  # fmt: skip
LOGS_AND_POLICY = ("evaluations.parquet", "sightings.parquet", "policy.safetensors")


@pytest.fixture
def scouting(plugin: Callable[..., Path]) -> None:
    plugin("scouting", FOLDER, {"guide": "scouting", "method": "scouting", "section": "scouting = scouting.report"})


def plan_cells(*words: str) -> Cell:
    (cell,) = matrix.plan([*TINY, *words]).cells
    return cell


def final_files(study: Path) -> dict[str, bytes]:
    """Return seed/file -> bytes of all logs and policies of a study, which no interruption may change."""
    files = [file for name in LOGS_AND_POLICY for file in sorted(study.glob(f"*/*/*/seed-*/{name}"))]
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}


def test_roles_are_sections_of_identity_record_and_name(scouting: None, tmp_path: Path) -> None:
    words = ("seer.model=org/clip", "reader.model=org/clip", "planner.model=org/large", "planner.temperature=0.5")
    cell = plan_cells(*words)
    assert [(part.role, part.kind, part.name) for part in cell.models] == [
        ("planner", "chat", "openai"), ("reader", "embedder", "transformers"), ("seer", "embedder", "transformers"),
    ]  # fmt: skip
    assert (cell.model, cell.backend) == ("large+clip", "openai+transformers"), "each once"
    assert "planner.temperature=0.5" in cell.variant and ".model" not in cell.variant, "a model has its own place"
    cell_record = json.loads(json.dumps(record(cell)))
    planner = {"kind": "chat", "name": "openai", "backend": "openai", "model": "large"}
    assert cell_record["parts"]["planner"] == planner and cell_record["versions"]["seer"] == 1
    assert recorded(cell_record).id == cell.id
    for other in ("seer.model=org/other", "reader.model=org/other", "planner=transformers", "planner.temperature=0.6"):
        changed = [word for word in words if word.partition("=")[0] != other.partition("=")[0]]
        assert plan_cells(*changed, other).id != cell.id, other
    assert plan_cells(*words, "planner.base_url=http://127.0.0.1:1/v1").id == cell.id
    (tmp_path / "cell.json").write_text(json.dumps(cell_record))
    assert configuration(tmp_path, cell.id).id == cell.id


def test_a_call_that_two_roles_put_is_verified_for_both(scouting: None) -> None:
    assert reasking._alike(plan_cells(), "seer") == ["seer", "reader"] and reasking._alike(plan_cells(), "planner") == [
        "planner"
    ]
    assert reasking._alike(plan_cells("reader.model=other"), "seer") == ["seer"]


def test_a_page_of_settings_says_what_a_role_is_for(scouting: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "suite=minigrid_doorkey", "method=scouting", "task=5x5"]) == 0
    assert "guide scouting, agent standard, planner openai (chat), reader transformers (embedder)" in " ".join(
        capsys.readouterr().out.split()
    )


def test_roles_share_a_process_where_one_model_answers_in_both(scouting: None) -> None:
    roles = ["planner", "reader", "seer"]
    assert process_groups(plan_cells(), roles) == [("planner",), ("reader", "seer")]
    assert process_groups(plan_cells("seer.delay=3"), roles) == [("planner",), ("reader", "seer")], (
        "a delay is the role's own"
    )
    for other in ("seer.model=other", "seer.dtype=bfloat16", "seer.batch_size=3"):
        assert process_groups(plan_cells(other), roles) == [("planner",), ("reader",), ("seer",)], other
    scripted = plan_cells("seer=scripted", "planner=scripted")
    assert process_groups(scripted, roles) == [("planner", "seer"), ("reader",)], "hand-written models share a process"


def test_an_ablation_swaps_the_part_of_one_role_or_sets_it(scouting: None) -> None:
    from guidebench.harness.plan import variations

    plan = variations.ablations(matrix.plan(list(TINY)))
    cells = {plan.matrix[cell.id].name: cell for cell in plan.cells}
    assert cells["planner=local"].names.part("planner") == "transformers"
    assert cells["reader=large"].section("reader").model == "large" != cells["reader=large"].section("seer").model


def test_a_command_names_roles_and_what_nobody_has_is_told(scouting: None) -> None:
    with pytest.raises(UserError, match="planner= is given, but none of the chosen methods has a planner"):
        matrix.plan(["suite=minigrid_doorkey", "method=uer", "profile=smoke", "planner=openai"])
    with pytest.raises(
        UserError, match="none of the chosen methods has an embedder in a role of that name; write reader=…"
    ):
        plan_cells("embedder=transformers")
    says = r"have an embedder in a role of another name than its kind; write reader\.delay=… or seer\.delay=…"
    with pytest.raises(UserError, match=says):
        plan_cells("embedder.delay=3")
    with pytest.raises(UserError, match=r"unknown setting 'planer'.*did you mean 'planner'"):
        plan_cells("planer=openai")
    with pytest.raises(UserError, match=r"unknown setting 'seer\.modle'.*did you mean 'seer\.model'"):
        plan_cells("seer.modle=x")
    with pytest.raises(UserError, match="unknown chat 'sprite'"):
        plan_cells("planner=sprite")
    with pytest.raises(UserError, match="unknown chat '3'"):
        plan_cells("planner=3")


CLASHING = """
    from dataclasses import dataclass
    from typing import ClassVar

    from guidebench.baselines.replay.uer import Uer
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    @register.replay("clashing")
    @dataclass(frozen=True)
    class Clashing(Uer):
        needs: ClassVar = {"planner": "judge"}


    register.method("clashing")(Method(summary="clashes", replay="clashing", guide="scouting", citation="% a test"))
"""


def test_one_role_of_two_kinds_is_refused_by_who_needs_it(scouting: None, plugin: Callable[..., Path]) -> None:
    plugin("clashing", CLASHING, {"replay": "clashing", "method": "clashing"})
    with pytest.raises(
        UserError, match="replay 'clashing' needs a judge in the role 'planner', but guide 'scouting' needs a chat"
    ):
        matrix.plan(["suite=minigrid_doorkey", "profile=smoke", "method=clashing"])


def test_a_question_to_a_role_that_no_part_declares_ends_the_run_by_its_name(
    plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    lost = {**FOLDER, "guide.py": FOLDER["guide.py"].replace('"planner"))', '"planer"))')}
    lost["__init__.py"] = FOLDER["__init__.py"].replace('"seer": "embedder", "reader": "embedder", ', "")
    lost["guide.py"] = "\n".join(
        line for line in lost["guide.py"].splitlines() if '"seer"))' not in line and '"reader"))' not in line
    )
    plugin("scouting", lost, {"guide": "scouting", "method": "scouting"})
    with pytest.raises(
        UserError, match=r"asks in the role 'planer', which the cell does not have .asked roles: planner"
    ):
        train(*(word for word in TINY if not word.startswith(("seeds", "profile"))), "seeds=[0]", packs=[(0,)])


def test_what_a_model_lacks_is_told_by_the_settings_of_its_role(
    scouting: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    plan = matrix.plan([*TINY, "reader.model=/nowhere", "seer.model=/nowhere/else"])
    planner, *embedders = readiness.missing(plan, tmp_path / "study")
    assert "planner.base_url=" in planner and "planner=transformers" in planner and "chat." not in planner
    assert [message.partition(":")[0] for message in embedders] == ["reader.model=/nowhere", "seer.model=/nowhere/else"]


def test_doctor_checks_the_model_of_a_role(scouting: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "seer=transformers", "seer.model=/nowhere/at/all"]) == 1
    assert "/nowhere/at/all" in capsys.readouterr().out
    assert cli.main(["doctor", "seer=transformers", "planner=openai"]) == 2
    assert "seer= and planner= name two models; bench doctor checks one at a time" in capsys.readouterr().err


def test_the_hand_written_model_of_the_recipe_answers_as_soon_as_its_class_is_written(
    plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    recipe = (Path(__file__).parents[1] / "docs" / "tutorials" / "model.md").read_text(encoding="utf-8")
    (embedder,) = re.findall(r'^```python\n([^`]*@register\.embedder\("brightness"\)[^`]*)^```', recipe, flags=re.M)
    chat = """
        @register.chat("parrot")
        @dataclass(frozen=True)
        class Parrot(Brightness):
            def spawn(self, suite, task):
                return lambda messages: str(len(messages[0].content[0]))
    """
    files = {**FOLDER, "models.py": embedder + textwrap.dedent(chat)}
    announced = {"embedder": "brightness = scouting.models", "chat": "parrot = scouting.models"}
    plugin("scouting", files, {"guide": "scouting", "method": "scouting", **announced})
    words = (word for word in TINY if not word.startswith(("seeds", "profile")))
    models = ("seer=brightness", "reader=brightness", "planner=parrot")
    rows = results.load(train(*words, *models, "seeds=[0]", packs=[(0,)]), log="sightings")
    assert set(rows["role"]) == {"seer", "reader", "planner"}
    assert set(rows.loc[rows["role"] == "reader", "bonus"]) == {7.0, 8.0}, "the lengths of 'step 20' and 'step 100'"


@pytest.mark.release
def test_the_folder_trains_is_killed_continues_replays_and_reports(
    scouting: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from tests.harness.models import tiny_models

    model = tiny_models.clip(tmp_path / "clip")
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def answer(path: str, body: dict, headers: dict) -> tuple:
        return 200, completion(str(len(str(body)) % 89)) if body else {"data": [{"id": "m"}]}

    with serving(answer) as url:
        models = (f"seer.model={model}", f"reader.model={model}", f"planner.base_url={url}", "planner.model=m")
        command = [
            "run", *TINY, *models, "planner.temperature=0.7", "planner.delay=0",
            f"output={tmp_path / 'killed'}", "checkpoint_every=40", "report=false",
        ]  # fmt: skip
        process = programs.start_bench(*command)
        until = time.monotonic() + 120
        while process.poll() is None and not list((tmp_path / "killed").glob("*/*/*/seed-0/checkpoint-*")):
            assert time.monotonic() < until
            time.sleep(0.01)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
        again = programs.bench(*command)
        assert again.code == 0 and "resumed at step" in again.out, again.out + again.err
        killed, archive = tmp_path / "killed", tmp_path / "killed.zip"
        assert cli.main(["submit", str(killed), "--cassette", "--output", str(archive)]) == 0
        few = ["--calls", "3", "--episodes", "1", "--runs", "1", "--leaderboard", str(tmp_path / "board"), "--json"]
        capsys.readouterr()
        assert cli.main(["verify", str(archive), *few, *models[:3], "models.budget_calls=9"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["cells"].values()
    checks = {check["what"]: check for check in verdict["checks"]}
    assert checks["model calls (seer)"]["passed"] and checks["model calls (reader)"]["passed"]
    assert "3 of 40 recorded calls asked again of m" in checks["model calls (planner)"]["detail"]
    rows = results.load(killed, log="sightings")
    assert rows.groupby(["seed", "role"]).size().to_dict() == {
        (seed, role): 20 for seed in (0, 1) for role in ("planner", "reader", "seer")
    }
    spending = results.load(killed, log="spending").sort_values("step").groupby(["seed", "role"]).tail(1)
    assert spending["questions"].tolist() == [20] * 6 and not spending["failures"].any()
    ledger = results.load(killed, log="ledger").sort_values("step").groupby("seed").tail(1)
    assert ledger["questions"].tolist() == [60, 60]

    replay = [*command[:-3], f"output={tmp_path / 'replayed'}", "models.mode=replay", f"models.cassette={killed}"]
    replayed = programs.bench(*replay, "report=false", "pack=1")
    assert replayed.code == 0, replayed.out + replayed.err
    assert final_files(tmp_path / "replayed") == final_files(killed) and len(final_files(killed)) == 6
    billed = results.load(tmp_path / "replayed", log="ledger")["billed_calls"]
    assert not billed.any()

    assert cli.main(["report", str(killed), "--resamples", "200"]) == 0
    summary = json.loads((killed / "report" / "summary.json").read_text())
    assert summary["sightings"] == ["planner", "reader", "seer"]
    assert "Sightings" in (killed / "report" / "report.html").read_text() and "Sightings" in capsys.readouterr().out
    (cell,) = results.study(killed).cells
    local = f"local-{str(digests.of_model(model))[:8]}"
    assert {role: part.model for role, part in cell.parts.items() if part.answers} == {
        "planner": "m", "reader": local, "seer": local,
    }  # fmt: skip
    assert asdict(cell)["model"] == f"m+{local}"
