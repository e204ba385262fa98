"""What RL-SaLLM-F's tables derive from one another, recomputed; what does not follow has a note that says what does."""

from decimal import Decimal

import pytest

from tests.results.published.printed_numbers import PrintedNumbers, follows, list_of_numbers, mean, round_half_up

PRINTED = PrintedNumbers("rl_sallm_f")
CLAIMS = PRINTED.claims
OURS = "rl_sallm_f"
ABLATIONS = ("no_double_check", "no_llm_labels", "no_self_augmentation")
ONLINE = ("button-press", "door-open", "door-unlock", "handle-pull")
OFFLINE = ("drawer-open", "door-open", "button-press")
SIX = ("door-open", "drawer-open", "drawer-close", "window-open", "button-press", "handle-pull")
MAZES = ("open", "umaze", "medium")
BASELINES = ("roboclip", "vlm_rm", "tadpole")
IN_MAZES = (("sac", "reward=dense"), ("sac", "reward=sparse"), ("pebble", ""), (OURS, ""))
ACCURACY = "label_accuracy_percent"


def online(task: str, ablation: str = "") -> Decimal:
    return PRINTED("1", task, OURS, ablation and f"ablation={ablation}", ACCURACY)


def offline(task: str, ablation: str = "") -> Decimal:
    return PRINTED("6", task, OURS, f"{ablation and f'ablation={ablation}; '}data=offline", ACCURACY)


def maze(task: str, method: str, variant: str = "") -> Decimal:
    return PRINTED("5", task, method, variant, "test_score")


def test_every_results_table_is_there_whole() -> None:
    def of(table: str, *metrics: str) -> set[tuple[str, str, str]]:
        rows = [r for r in PRINTED.rows if r.table == table and r.metric in metrics]
        keys = {(r.task, r.method, r.variant) for r in rows}
        assert len(keys) * len(metrics) == len(rows)
        return keys

    variants = ("", *(f"ablation={a}" for a in ABLATIONS))
    assert of("1", ACCURACY) == {(t, OURS, v) for t in ONLINE for v in variants}
    assert of("1", "discard_percent") == {(t, OURS, "") for t in ONLINE}
    assert of("4", "success_percent") == {(t, m, "") for t in (*SIX, ",".join(SIX)) for m in (*BASELINES, OURS)}
    assert of("5", "test_score") == {(t, *m) for t in (*MAZES, "all") for m in IN_MAZES}
    kinds = ("data=offline", "ablation=no_self_augmentation; data=offline")
    assert of("6", ACCURACY) == {(t, OURS, v) for t in (*OFFLINE, ",".join(OFFLINE)) for v in kinds}
    assert of("7", "input_tokens", "output_tokens", "dollars") == {("all", OURS, v) for v in variants}
    assert len(PRINTED.rows) == 84
    assert {(r.table, r.error_kind) for r in PRINTED.rows if r.error_kind} == {("4", "unknown"), ("5", "unknown")}
    assert {(r.table, str(r.seeds)) for r in PRINTED.rows if r.table == "1" or str(r.seeds) != "<NA>"} == {("1", "5")}


PLACES = {"29.07": 2, "30.5": 1, "36.8": 1, "39.3": 1}
"""Table 5 prints one average to two places, the others to one."""


def test_averages_are_those_of_their_tasks_or_noted() -> None:
    averages = PRINTED.averages()
    for row in averages:
        assert len(PRINTED.parts(row)) == {"4": 6, "5": 3, "6": 3}[row.table]
        follows(row, mean(PRINTED.parts(row)), PLACES[str(row.value)] if row.table == "5" else 2)
    assert [r.table for r in averages] == ["4"] * 4 + ["5"] * 4 + ["6"] * 2
    assert [(r.table, r.value) for r in averages if " give " in r.note] == [("4", 7.41), ("6", 74.53)]
    # rows of table 1 that nothing derives add up as on the page
    assert sum(online(t, "no_double_check") for t in ONLINE) == Decimal("250.55")
    assert sum(online(t, "no_llm_labels") for t in ONLINE) == Decimal("239.68")
    assert sum(PRINTED("1", t, OURS, metric="discard_percent") for t in ONLINE) == Decimal("146.15")


def test_section_4_s_accuracies_are_table_1_s_of_button_press() -> None:
    checked, augmented = online("button-press", "no_self_augmentation"), online("button-press")
    raw, first, second = (CLAIMS[n] for n in ("raw_label_accuracy", "double_check_gain", "self_augmentation_gain"))
    assert raw.value + first.value == pytest.approx(float(round_half_up(checked, 1))) == 64.8
    assert raw.value + first.value + second.value == pytest.approx(float(round_half_up(augmented, 1))) == 72.3
    assert CLAIMS["label_accuracy"].value == 72.3 and augmented == max(online(t) for t in ONLINE)
    assert f"{checked} and {augmented:.2f} on button press: {augmented - checked}" in second.note
    assert f"table 1's {checked} and {augmented:.2f}" in raw.note and f"table 1 has {checked}" in first.note
    noted = {r.note: Decimal(str(r.value)) for r in PRINTED.rows if r.note.endswith("in §4")}
    assert noted == {"64.8 in §4": checked, "72.3 in §4": augmented}
    assert CLAIMS["one_shot_prompt"].value == pytest.approx(71.8 - 72.3)


def test_the_full_method_s_labels_are_best_and_about_70_percent_right() -> None:
    assert all(online(t) > online(t, a) for t in ONLINE for a in ABLATIONS)
    assert "all four tasks" in CLAIMS["most_accurate_labels"].note
    values, claim = [online(t) for t in ONLINE], CLAIMS["seventy_percent_accuracy"]
    assert round_half_up(mean(values), -1) == claim.value
    assert f"mean is {round_half_up(mean(values), 1)}, from {min(values)} to {round_half_up(max(values))}" in claim.note


def test_the_offline_gain_is_larger_than_the_online_one() -> None:
    before, after = (
        {t: of(t) - of(t, "no_self_augmentation") for t in ts} for of, ts in ((online, ONLINE), (offline, OFFLINE))
    )
    printed = offline(",".join(OFFLINE)) - offline(",".join(OFFLINE), "no_self_augmentation")
    note = CLAIMS["larger_gain_offline"].note
    assert min(after.values()) > 0 and "all three tasks" in CLAIMS["more_accurate_offline"].note
    assert mean(after.values()) > mean(before.values())
    assert f"{round_half_up(mean(after.values()))} points on average ({printed} by the printed averages)" in note
    assert f"table 1's {round_half_up(mean(before.values()))} over" in note
    assert " and ".join(f"{after[t]} against {before[t]}" for t in [t for t in OFFLINE if t in ONLINE]) in note


def test_drawer_close_is_the_one_task_where_baselines_are_ahead() -> None:
    claim = CLAIMS["above_reward_free_baselines"]
    ours, *others = (PRINTED("4", ",".join(SIX), m) for m in (OURS, *BASELINES))
    assert f"{ours} against {max(others)} at most" in claim.note and claim.task.split(",") == list(SIX)
    ahead = {t: {m: PRINTED("4", t, m) for m in BASELINES if PRINTED("4", t, m) >= PRINTED("4", t, OURS)} for t in SIX}
    assert {t: set(methods) for t, methods in ahead.items() if methods} == {"drawer-close": {"vlm_rm", "tadpole"}}
    assert set(ahead["drawer-close"].values()) == {Decimal(100)}
    assert f"have 100, it {PRINTED('4', 'drawer-close', OURS)}" in claim.note
    noted = [(r.task, r.method) for r in PRINTED.rows if r.table == "4" and "against §B.5" in r.note]
    assert noted == [("drawer-close", OURS)]


def test_mazes_follow_the_text_on_average_only() -> None:
    above, poor = CLAIMS["above_pebble_in_point_maze"], CLAIMS["sac_is_poor_in_point_maze"]
    average = {m: maze("all", *m) for m in IN_MAZES}
    assert sorted(average, key=average.__getitem__) == list(IN_MAZES)
    assert poor.baseline.split(",") == [OURS, "pebble", "sac"]
    assert f"{average[OURS, '']} against {average['pebble', '']}" in above.note
    behind = [t for t in MAZES if maze(t, OURS) <= maze(t, "pebble")]
    assert behind == ["open"] and f"PEBBLE has {maze('open', 'pebble')}, it {maze('open', OURS)}" in above.note
    assert [(r.task, r.method) for r in PRINTED.rows if "against §B.6" in r.note] == [("open", OURS)]
    sparse, pebble = maze("umaze", "sac", "reward=sparse"), maze("umaze", "pebble")
    assert sparse > pebble and f"has {round_half_up(sparse, 1)}, PEBBLE {round_half_up(pebble, 1)}" in poor.note


def test_every_cost_is_that_of_one_price_list() -> None:
    spent = {}
    for variant in ("", *(f"ablation={a}" for a in ABLATIONS)):
        input_tokens, output_tokens, spent[variant] = (
            PRINTED("7", "all", OURS, variant, metric) for metric in ("input_tokens", "output_tokens", "dollars")
        )
        assert (
            round_half_up((input_tokens * Decimal("0.15") + output_tokens * Decimal("0.60")) / 10**6) == spent[variant]
        )
    assert "0.15 and 0.60" in next(r.note for r in PRINTED.rows if r.metric == "dollars")
    assert sum(cost < spent[""] for cost in spent.values()) == CLAIMS["ablations_cost_less"].value == 3


def test_the_larger_model_s_price_is_noted_for_both_price_lists() -> None:
    small, note = (Decimal("0.15"), Decimal("0.60")), CLAIMS["larger_model_price"].note
    later, earlier = (
        [round_half_up(new / old, 1) for new, old in zip(prices, small, strict=True)]
        for prices in ((Decimal("2.50"), Decimal(10)), (Decimal(5), Decimal(15)))
    )
    assert (
        later[0] == later[1]
        and f"{later[0]} at 2.50 and 10" in note
        and f"{list_of_numbers(earlier)} at 5 and 15" in note
    )
