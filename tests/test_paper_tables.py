"""The paper's tables by measurement, and its worked examples."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import selmatch as sm
from selmatch.paper import examples, ledger, tables

matplotlib.use("Agg")

#: entries that do not do what the paper says
DISAGREEMENTS = {
    "scalings": [],
    "links": [("sign(z) log(1 + |z|)", "C83"), ("z^½", "C87")],
    "mc_requirements": [
        ("q = tanh(z), γ = 10", "C72"),
        ("q = exp(z/2)", "C67"),
        ("q = sinh(z)", "C67"),
    ],
}


# ---------------------------------------------------------------------------------------------------------- tables


def test_three_tables_with_full_rows():
    found = tables.tables()
    assert [table.label for table in found] == ["tab:scalings", "tab:links", "tab:mc_requirements"]
    for table in found:
        assert len(table.rows) == len(tables.entries(table.name))
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert all(isinstance(cell, str) for row in table.rows for cell in row)
        assert [row[table.columns.index("agrees")] for row in table.rows] == [
            entry.agrees for entry in tables.entries(table.name)
        ]


@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_only_the_known_entries_disagree(name):
    wrong = [(entry.name, entry.claims[0]) for entry in tables.entries(name) if entry.agrees == tables.NO]
    assert wrong == DISAGREEMENTS[name]


def test_decomposed_losses_look_there_and_do_not_rank():
    partly = [entry for entry in tables.entries("mc_requirements") if entry.agrees == tables.PARTLY]
    assert [entry.name for entry in partly] == ["decomposed sinh(z)", "decomposed exp(z)", "decomposed −exp(−z)"]
    assert all(entry.has and not entry.measured.ranks and entry.claims == ("C92",) for entry in partly)


MEASURED = [
    ("decomposed σ(z)", (0.0452, 0.25, 0.0452)),
    ("q = sinh(z)", (30.12, 5.766e-5, 30.12)),
    ("q = exp(z)", (1.039e-10, 1.029e-8, 20.09)),
    ("q = σ(z − 2)", (0.001148, 0.02256, 0.2487)),
    ("q = −exp(−z)", (20.09, 1.029e-8, 1.039e-10)),
]


@pytest.mark.parametrize(("name", "values"), MEASURED, ids=[name for name, _ in MEASURED])
def test_sensitivities_of_the_table_of_scalings(name, values):
    (entry,) = [entry for entry in tables.entries("scalings") if entry.name == name]
    assert entry.sensitivities == pytest.approx(values, rel=2e-3)


def test_other_shapes_of_the_table_of_scalings_are_measured():
    others = [entry for entry in tables.entries("scalings") if entry.name.startswith("other shape")]
    assert [entry.measured.focus for entry in others] == ["low norms"] * 2 + ["high norms"] * 2
    assert others[1].sensitivities == pytest.approx((0.1, 1.0, 0.1))  # 1 / (1 + z^2)


def test_no_entry_is_without_a_claim():
    for table in tables.tables():
        claims = table.columns.index("claim" if table.name == "links" else "claims")
        assert all(row[claims].startswith("C") for row in table.rows), table.name


CONDITIONS = {
    "decomposed σ(z)": "h steep at 0",
    "square": "h steep alike everywhere",
    "standard Softmax": "q steep nowhere, p_k large at 3",
    "q = sinh(z)": "q steep at −3 and 3, p_k large at −3 and 3",
    "q = tanh(z)": "q steep at 0, p_k large at −3 and 3",  # they disagree
    "q = tanh(z − 3)": "q steep at 3, p_k large at −3",
    "q = σ(z − 2)": "q steep at 3, p_k large at 3",
    "q = σ(z + 3)": "q steep at −3, p_k large at 3",
    "q = −exp(−z)": "q steep at −3, p_k large at −3",
}


def test_basic_conditions_are_measured():
    regions = {entry.name: entry.condition for entry in tables.entries("mc_requirements") if entry.asks_for_a_region}
    assert {name: regions[name] for name in CONDITIONS} == CONDITIONS
    others = {(entry.wanted, entry.name): entry.condition for entry in tables.entries("mc_requirements")}
    assert others["clips low scores", "Q = SmeLU(z)"] == "q(−3) = 0"
    assert others["clips low scores", "q = exp(z)"] == "q(−3) = 0.0498"
    assert others["p increases", "q = sinh(z)"] == "p_k rises and falls"
    assert others["symmetric", "decomposed sinh(z)"] == "h is odd"
    assert others["symmetric", "decomposed exp(z)"] == "h is not odd"
    assert others["symmetric", "q = σ(z)"] == "q is not odd"


def test_losses_that_ignore_shifts_have_no_region_of_their_own():
    found = {row[1]: row[4] for row in tables.tables()[2].rows if row[0] == "high scores"}
    numbers = "0.00235, 0.0451, 0.0472"
    assert found["standard Softmax"] == f"shift invariant: no region of its own (classes at −3, 0, 3: {numbers})"
    assert found["square"].startswith("shift invariant")
    assert found["q = exp(z)"].startswith("high scores")
    assert found["decomposed exp(z)"].startswith("high scores")  # its shares ignore shifts, its size does not


def test_sensitivity_under_shifts():
    factors = {entry.name: entry.shift_factor for entry in tables.entries("mc_requirements") if "shift" in entry.wanted}
    assert factors["q = exp(z/2)"] > 2.0
    assert factors["decomposed exp(z)"] == pytest.approx(np.exp(4.0), rel=1e-12)
    assert factors["decomposed sinh(z)"] > 10.0
    invariant = {
        entry.name: entry.shift_factor for entry in tables.entries("mc_requirements") if entry.name == "square"
    }
    assert invariant == {"square": 1.0}


def test_every_loss_of_the_table_of_scalings_is_proved_convex():
    (scalings,) = [table for table in tables.tables() if table.name == "scalings"]
    assert {row[scalings.columns.index("convex")] for row in scalings.rows} == {"proved"}


def test_claims_of_entries_exist():
    known = {claim.id for claim in ledger.claims()}
    cited = {id for name in DISAGREEMENTS for entry in tables.entries(name) for id in entry.claims}
    assert cited <= known
    rows = {claim.id for claim in ledger.claims() if claim.where.startswith("tab:")}
    assert rows - cited == {"C89"}  # every row is measured; this one is about the ends of domains


def test_a_wrong_curve_changes_a_table(monkeypatch):
    entry = tables.Entry("Sigmoid", "tanh", sm.Tanh(), "low norms")
    assert entry.agrees == tables.YES
    monkeypatch.setattr(sm.Tanh, "difference", sm.Sinh.difference)
    assert tables.Entry("Sigmoid", "tanh", sm.Tanh(), "low norms").agrees == tables.NO


def test_unknown_tables_are_refused():
    with pytest.raises(ValueError, match="name must be one of scalings, links, mc_requirements, got 'x'"):
        tables.entries("x")


# -------------------------------------------------------------------------------------------------------- examples


@pytest.fixture(scope="module")
def numbers():
    return {example.name: example.numbers() for example in examples.examples()}


def test_ages_cost_more_on_the_bad_side(numbers):
    found = numbers["age"]
    ratio = (np.e - 2.0) / np.exp(-1.0)  # e^u - 1 - u at u = 1 over u = -1
    assert found["child of 10: too low / too high"] == pytest.approx(ratio, rel=1e-9)
    assert found["adult of 40: too high / too low"] == pytest.approx(ratio, rel=1e-9)
    assert found["one link, child: too low / too high"] > 1.9
    assert found["one link, adult: too high / too low"] > 1.9


def test_unknown_ages_lean_the_safe_way_and_one_link_the_other(numbers):
    found = numbers["age"]
    steepness = examples.STEEPNESS
    up = np.log(np.mean(np.exp(steepness * examples.CHILDREN))) / steepness
    down = -np.log(np.mean(np.exp(-steepness * examples.ADULTS))) / steepness
    assert found["prediction for children"] == pytest.approx(up, rel=1e-9)
    assert found["prediction for adults"] == pytest.approx(down, rel=1e-9)
    assert found["one link, prediction for children"] < 10.0 < found["prediction for children"]
    assert found["prediction for adults"] < 40.0 < found["one link, prediction for adults"]


def test_ages_are_equally_sensitive_to_small_errors():
    ages = np.append(examples.CHILDREN, examples.ADULTS)
    np.testing.assert_allclose(examples.age_loss().curvature(ages, ages), 1.0, rtol=1e-12)


def test_the_best_constant_is_the_minimiser():
    scores = np.array([0.0, 1.0, 4.0])
    loss = sm.MatchingLoss(sm.Exp())
    assert examples.best_constant(loss, scores) == pytest.approx(loss.minimiser(scores), rel=1e-12)


def test_neighbouring_ratings_cost_nothing(numbers):
    found = numbers["ratings"]
    assert found["loss of 5 for 4"] == found["loss of 1 for 2"] == 0.0
    assert found["loss of 2 for 4"] == pytest.approx(2.0)
    assert sm.certify.flat(examples.rating_loss(), (4, 5))


def test_a_habit_of_raters_does_not_move_the_prediction(numbers):
    found = numbers["ratings"]
    assert found["prediction"] == pytest.approx(4.0 - 2.0 * examples.DISAGREE / 100)
    assert abs(found["habit of 60 raters moves it by"]) < 1e-12
    assert found["habit, squared error"] == pytest.approx(0.6)
    assert 0.0 < found["habit, slight slope"] < 0.05


def test_flat_pieces_give_no_gradient_and_a_slope_does(numbers):
    assert numbers["ratings"]["gradient at 4.5 for 4"] == 0.0
    assert numbers["ratings"]["gradient at 4.5 for 4, slight slope"] == pytest.approx(0.025)


def test_idle_users_do_not_draw_the_prediction(numbers):
    found = numbers["idle_users"]
    moves = {name: found[f"{name}: idle half hours move it by"] for name in examples.visit_losses()}
    assert moves["high, hard cap"] == pytest.approx(0.0, abs=1e-9)
    assert 0.0 < moves["high, cap"] < 0.2 * moves["squared error"]
    assert moves["high"] > moves["squared error"]


def test_gradients_are_capped(numbers):
    found = numbers["idle_users"]
    pulls = [found[f"{name}: pull of an idle user / of a visit at the cap"] for name in examples.visit_losses()]
    assert pulls[0] == pytest.approx((1800 - 60) / (300 - 60))
    assert pulls[3] == 1.0 < pulls[2] < 2.5 < pulls[0] < pulls[1]


@pytest.mark.parametrize("example", examples.examples(), ids=lambda example: example.name)
def test_examples_run_and_draw(example):
    import matplotlib.pyplot as plt

    names: dict = {}
    exec(example.code, names)  # the code that readers copy
    figure = example.draw()
    assert len(figure.axes) >= 3
    assert all(axes.lines or axes.patches for axes in figure.axes)
    plt.close(figure)
    assert all(np.isfinite(list(example.numbers().values())))


def test_the_code_of_the_examples_is_the_loss_that_is_measured():
    names: dict = {}
    exec(examples.AGE.code, names)
    assert names["loss"](15.0, 10.0) == pytest.approx(examples.age_loss()(15.0, 10.0), rel=1e-12)
    exec(examples.RATINGS.code, names)
    assert names["flat"] == examples.rating_loss()
    assert names["loss"] == examples.trainable_rating_loss()
    exec(examples.IDLE_USERS.code, names)
    assert names["hard"].grad(60.0, 1800.0) == names["hard"].grad(60.0, 300.0)


def test_drawn_losses_are_those_of_the_example():
    import matplotlib.pyplot as plt

    figure = examples.AGE.draw()
    curve = max(figure.axes[0].lines, key=lambda line: len(line.get_xdata()) if line.get_linestyle() == "-" else 0)
    x, y = curve.get_xydata().T
    np.testing.assert_allclose(y, examples.age_loss()(x, np.full(x.shape, 10.0), reduction="none"), atol=1e-9)
    plt.close(figure)


def test_neighbouring_ratings_are_seen_although_they_share_their_losses():
    import matplotlib.pyplot as plt

    figure = examples.RATINGS.draw()
    curves = [line for line in figure.axes[1].lines if len(line.get_xdata()) > 2]
    one, two, three, four, five = (line.get_linewidth() for line in curves)
    assert one > two + 1.0
    assert four > five + 1.0
    assert two == three == five
    squares = [line for line in examples.AGE.draw().axes[1].lines if line.get_label() == "squared error"]
    x, y = squares[0].get_xydata().T
    np.testing.assert_allclose(y, 0.5 * (x - 40.0) ** 2, atol=1e-9)
    plt.close("all")


def test_unknown_examples_are_refused():
    assert examples.example("age") is examples.AGE
    with pytest.raises(ValueError, match="name must be one of age, ratings, idle_users, got 'x'"):
        examples.example("x")
