"""A loss from a wish: the strength that was asked for, on any data, and clear words where it cannot be had."""

from __future__ import annotations

import dataclasses
import logging
import math
import pickle

import jax.numpy as jnp
import numpy as np
import pandas
import polars
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import selmatch as sm
from selmatch.design import WORDS, Wish, focus, from_sensitivity
from selmatch.drawing import FromSensitivity

over = pytest.mark.parametrize
SAMPLES = {
    "normal": lambda rng, n: rng.normal(3.0, 2.0, n),
    "log-normal": lambda rng, n: rng.lognormal(2.0, 1.0, n),
    "uniform": lambda rng, n: rng.uniform(-1.0, 4.0, n),
    "ratings": lambda rng, n: rng.integers(1, 6, n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
}
visits = SAMPLES["log-normal"](np.random.default_rng(7), 400)
#: five rows whose every word leaves some inside and some outside
few = {name: np.sort(sample(np.random.default_rng(5), 5)) for name, sample in SAMPLES.items()}
few["ratings"] = np.array([1, 2, 3, 3, 5])


def slopes(loss: sm.MatchingLoss, y: np.ndarray) -> np.ndarray:
    return np.asarray(loss.potential.slope(np.asarray(y, dtype=float)))


def inside(wish: Wish, y: np.ndarray) -> np.ndarray:
    return np.logical_or.reduce([(y >= low) & (y <= high) for low, high, _ in wish.regions])


def check(loss: sm.MatchingLoss, y: np.ndarray, strength: float) -> None:
    """What must hold for every drawn profile with regions of equal weight."""
    wish = loss.wish
    here, sensitivity = inside(wish, y), slopes(loss, y)
    assert isinstance(loss.potential, FromSensitivity)
    assert loss.potential.increasing is True
    assert 0 < here.sum() < len(y)
    assert wish.covered == pytest.approx(here.mean(), rel=1e-12)
    ratio = sensitivity[here].mean() / sensitivity[~here].mean()
    assert ratio == pytest.approx(strength, rel=1e-9)
    assert wish.reached == pytest.approx(ratio, rel=1e-9)
    assert sensitivity.mean() == pytest.approx(1.0, rel=1e-12)
    assert np.median(sensitivity[here]) / np.median(sensitivity[~here]) >= 0.5 * strength * (1 - 1e-12)
    assert wish.median_ratio >= 0.5 * strength * (1 - 1e-12)
    assert wish.floor is not None
    assert 0 < wish.floor <= sensitivity.min() * (1 + 1e-12)
    assert wish.curvature == (sensitivity.min(), sensitivity.max())


# ------------------------------------------------------------------------------------------------- what was asked for


@over("word", WORDS)
@over("name", SAMPLES)
def test_every_word_hits_the_strength(name, word):
    for size, seed in ((5, None), (40, 1), (40, 2), (1000, 3), (1000, 4)):
        y = few[name] if seed is None else SAMPLES[name](np.random.default_rng(seed), size)
        for strength, top in ((8.0, 0.1), (2.0, 0.3), (100.0, 0.05)):
            check(focus(word, data=y, strength=strength, top=top), y, strength)


@given(
    word=st.sampled_from(WORDS),
    y=st.lists(st.integers(-1000, 1000).map(lambda t: t / 16), min_size=3, max_size=40).map(np.array),
    top=st.floats(0.01, 0.6),
    strength=st.floats(1.0, 1e4),
    edge=st.one_of(st.none(), st.just(0.0), st.floats(1e-3, 10.0)),
)
def test_any_wish(word, y, top, strength, edge):
    try:
        loss = focus(word, data=y, top=top, strength=strength, edge=edge)
    except ValueError as error:
        refusals = ["leave some rows outside", "at least 2 different scores", *["edge must be narrow"] * bool(edge)]
        assert any(refusal in str(error) for refusal in refusals)  # noqa: PT017
        return
    check(loss, y, strength)
    assert edge is None or loss.wish.edge == edge


def test_the_rows_of_words():
    y = np.arange(100.0)
    rows = {
        "high": y >= 90,
        "low": y < 10,
        "middle": (y >= 45) & (y < 55),
        "extremes": (y < 5) | (y >= 95),
    }
    for word, expected in rows.items():
        assert np.array_equal(inside(focus(word, data=y).wish, y), expected)
    ratings = np.repeat([1, 2, 3, 4, 5], [10, 20, 40, 20, 10])
    wish = focus("high", data=ratings, top=0.15).wish
    assert (wish.top, wish.covered, wish.regions) == (0.15, pytest.approx(0.3), ((3.5, math.inf, 1.0),))
    assert focus("middle", data=ratings).wish.regions == ((2.5, 3.5, 1.0),)


def test_the_front_door():
    loss = focus("high", data=visits)
    assert isinstance(loss, sm.MatchingLoss)
    assert (loss.wish.strength, loss.wish.top) == (8.0, 0.1)
    check(loss, visits, 8.0)
    assert loss(visits + 1.0, visits) > 0
    high, low = np.sort(visits)[[-5, 50]]
    assert loss(high + 1.0, high) > 5 * loss(low + 1.0, low)


def test_drawn_by_hand():
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0])
    loss = focus(between=(2.0, 4.0), data=y, strength=4.0, edge=2.0)
    # the rows 0 and 6 are at the feet of the ramps, 1 and 5 half-way up: floor + (1 - floor) / 5 = 1 / 4
    floor = (1 / 4 - 1 / 5) / (1 - 1 / 5)
    gain = 8.0 / (3.0 + 5.0 / 4.0)
    assert loss.potential.knots == (0.0, 2.0, 4.0, 6.0)
    np.testing.assert_allclose(loss.potential.values, gain * np.array([floor, 1.0, 1.0, floor]), rtol=1e-14)
    hard = focus(between=(2.0, 4.0), data=y, strength=4.0, edge=0.0)
    assert hard.potential.knots == (2.0, 2.0, 4.0, 4.0)
    np.testing.assert_allclose(slopes(hard, y), np.where((y >= 2) & (y <= 4), 1.0, 0.25) * 8 / 4.25, rtol=1e-14)


def test_ramps_are_narrowed_until_the_floor_is_high_enough():
    y = np.concatenate([np.linspace(0.0, 1.0, 90), np.linspace(1.0001, 1.1, 10)])
    loss = focus("high", data=y, strength=50.0)
    assert loss.wish.edge is not None
    assert 0 < loss.wish.edge < 0.1 * 0.5
    check(loss, y, 50.0)
    unscaled = loss.wish.floor / max(loss.potential.values)
    assert unscaled >= 0.25 / 50.0


def test_weights_are_copies_of_rows():
    weights = np.random.default_rng(0).integers(0, 4, len(visits))
    copies = np.repeat(visits, weights)
    for word in WORDS:
        one, other = focus(word, data=visits, weights=weights), focus(word, data=copies)
        np.testing.assert_allclose(one.potential.knots, other.potential.knots, rtol=1e-12)
        np.testing.assert_allclose(one.potential.values, other.potential.values, rtol=1e-9)
        assert one.wish.elicited == pytest.approx(other.wish.elicited, rel=1e-9)
        assert one.wish.mean == pytest.approx(copies.mean(), rel=1e-12)
    missing = np.where(weights > 0, visits, math.nan)
    assert focus("high", data=missing, weights=weights) == focus("high", data=visits, weights=weights)


def test_strength_1_is_squared_error():
    loss = focus("middle", data=visits, strength=1.0)
    np.testing.assert_allclose(slopes(loss, visits), 1.0, rtol=1e-12)
    assert loss(3.0, 1.0) == pytest.approx(2.0)


# ----------------------------------------------------------------------------------------------- regions and the cap


def test_regions_keep_their_weights():
    y = np.linspace(0.0, 10.0, 501)
    loss = focus(regions=[(1.0, 2.0, 3.0), (5.0, 7.0, 6.0)], data=y, strength=5.0)
    wish, here = loss.wish, inside(loss.wish, y)
    assert wish.regions == ((1.0, 2.0, 0.5), (5.0, 7.0, 1.0))
    assert slopes(loss, y)[here].mean() / slopes(loss, y)[~here].mean() == pytest.approx(5.0, rel=1e-12)
    assert slopes(loss, y).mean() == pytest.approx(1.0, rel=1e-12)
    assert loss.potential.slope(6.0) == pytest.approx(2.0 * loss.potential.slope(1.5), rel=1e-14)
    assert loss.potential.slope(0.0) == loss.potential.slope(9.9) == wish.floor


def test_near_regions_take_the_larger_profile():
    y = np.linspace(0.0, 10.0, 1001)
    for regions in ([(2.0, 4.0, 1.0), (4.5, 6.0, 2.0)], [(2.0, 4.0), (4.0, 6.0)], [(2.0, 5.0, 1.0), (4.0, 6.0, 3.0)]):
        loss = focus(regions=regions, data=y, strength=3.0, edge=0.7)
        assert loss.wish.reached == pytest.approx(3.0, rel=1e-12)
        largest, floor, expected = max(loss.potential.values), loss.wish.floor, []
        for low, high, weight in loss.wish.regions:
            level = np.clip(np.minimum((y - low) / 0.7, (high - y) / 0.7) + 1.0, 0.0, 1.0)
            expected.append(floor + (weight * largest - floor) * level)
        np.testing.assert_allclose(slopes(loss, y), np.max(expected, axis=0), rtol=1e-12)


def test_equal_weights_are_no_weights():
    wishes = [[(8.0, 9.0), (20.0, 30.0)], [(20.0, 30.0, 2), (8.0, 9.0, 2)]]
    first, second = (focus(regions=regions, data=visits) for regions in wishes)
    assert first == second
    check(first, visits, 8.0)


def test_beyond_the_cap_sensitivity_falls_to_the_floor():
    loss = focus("high", data=visits, top=0.2, cap=40.0, edge=2.0)
    (low, high, _), wish = loss.wish.regions[0], loss.wish
    assert (high, wish.cap) == (40.0, 40.0)
    check(loss, visits, 8.0)
    assert wish.covered == pytest.approx(np.mean((visits >= low) & (visits <= 40.0)))
    top = max(loss.potential.values)
    np.testing.assert_allclose(loss.potential.slope(np.array([40.0, 41.0, 42.0, 1e6])),
                               [top, (top + wish.floor) / 2, wish.floor, wish.floor], rtol=1e-12)  # fmt: skip
    mirrored = focus("low", data=-visits, top=0.2, cap=-40.0, edge=2.0)
    np.testing.assert_allclose(slopes(mirrored, -visits), slopes(loss, visits), rtol=1e-9)
    both = focus("extremes", data=visits, cap=60.0).wish
    assert (both.regions[0][0], both.regions[1][1]) == (-math.inf, 60.0)


# ------------------------------------------------------------------------------------------------ the paper's curves


@over("name", SAMPLES)
@over(("word", "family", "curve"), [
    ("high", "exp", sm.Exp()), ("low", "exp", sm.AntiExp()), ("high", "sigmoid", sm.Sigmoid()),
    ("low", "sigmoid", sm.Sigmoid()), ("middle", "sigmoid", sm.Sigmoid()), ("extremes", "sinh", sm.Sinh()),
])  # fmt: skip
def test_families_reach_the_strength(name, word, family, curve):
    for seed in range(3):
        y = SAMPLES[name](np.random.default_rng(seed), 300)
        loss = focus(word, data=y, family=family, strength=6.0)
        here = inside(loss.wish, y)
        assert isinstance(loss.potential, sm.Affine)
        assert loss.potential.curve == curve
        assert slopes(loss, y)[here].mean() / slopes(loss, y)[~here].mean() == pytest.approx(6.0, rel=1e-9)
        assert slopes(loss, y).mean() == pytest.approx(1.0, rel=1e-9)
        assert loss.potential.increasing is True
        assert (loss.wish.edge, loss.wish.floor, loss.wish.family) == (None, None, family)


def test_what_a_family_cannot_reach():
    y = np.concatenate([np.linspace(0.0, 10.0, 100), [5000.0]])
    with pytest.raises(ValueError, match=r"strength must be between 1 and 1\.\d+ on these data with family='sinh'"):
        focus("low", data=y, family="sinh")
    reachable = focus("low", data=y, family="sinh", strength=1.05)
    assert reachable.wish.reached == pytest.approx(1.05, rel=1e-9)
    for word, family, remedy in (
        ("middle", "exp", "sigmoid"),
        ("extremes", "sigmoid", "sinh"),
        ("middle", "sinh", "sigmoid"),
    ):
        with pytest.raises(ValueError, match=rf"family must be sensitive.*got '{family}'. Try family='{remedy}'"):
            focus(word, data=y, family=family)


# ------------------------------------------------------------------------------------------------------- many classes


@over("word", WORDS)
def test_lists(word):
    rows = np.random.default_rng(0).normal(1.0, 2.0, (200, 5))
    loss = focus(word, data=rows, classes=True, gamma=0.5)
    flat = focus(word, data=rows.ravel())
    softmax, wish = loss.potential, loss.wish
    assert isinstance(softmax, sm.CompositeSoftmax)
    assert softmax.gamma == 0.5
    np.testing.assert_allclose(softmax.scaling.slope(rows), flat.potential.slope(rows), rtol=1e-14)
    sign = {"high": 1.0, "low": -1.0}.get(word)
    if sign is not None:
        assert np.all(sign * softmax.scaling(rows) >= -1e-12)
    zero = {"high": rows.min(), "low": rows.max()}.get(word, np.sort(rows.ravel())[499])
    assert softmax.scaling(zero) == pytest.approx(0.0, abs=1e-12)
    here, delta = inside(wish, rows), softmax.slope(rows)
    assert wish.reached == pytest.approx(delta[here].mean() / delta[~here].mean(), rel=1e-12)
    assert (wish.rows, wish.elicited, wish.classes) == (1000, None, True)
    assert loss(rows + 0.1, rows) > 0


# -------------------------------------------------------------------------------------------------------- the record


def test_a_region_without_end_is_the_word_for_it():
    y = np.random.default_rng(3).normal(size=(50, 4))
    said = focus("high", data=y, classes=True)
    ((low, high, _),) = said.wish.regions
    assert high == math.inf
    assert focus(between=(low, np.float32("inf")), data=y, classes=True) == said
    assert focus(between=(low, high), data=y.ravel()) == focus("high", data=y.ravel())


def test_the_record_is_made_of_plain_values(caplog):
    with caplog.at_level(logging.INFO, logger="selmatch.design"):
        loss = focus("extremes", data=visits)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage() == f"focus: {loss.wish}"

    def plain(value: object) -> bool:
        return (
            all(map(plain, value)) if isinstance(value, tuple) else type(value) in (int, float, str, bool, type(None))
        )

    wish = loss.wish
    assert all(plain(getattr(wish, field.name)) for field in dataclasses.fields(wish))
    assert hash(wish) == hash(pickle.loads(pickle.dumps(wish)))
    assert (wish.mean, wish.lowest, wish.highest) == (pytest.approx(visits.mean()), visits.min(), visits.max())
    assert wish.median == np.sort(visits)[199]
    assert wish.quartiles == tuple(np.sort(visits)[[99, 300]])
    assert wish.elicited == wish.start == pytest.approx(loss.minimiser(visits), rel=1e-12)
    assert wish.elicited == pytest.approx(loss.potential.inverse(np.mean(loss.potential(visits))), rel=1e-12)


# --------------------------------------------------------------------------------------------------- data of any kind


def test_data_of_any_kind():
    y = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    expected = focus("high", data=np.array(y, dtype=float))
    for data in (
        y, tuple(y), np.array(y), np.array(y, dtype=np.float32), pandas.Series(y), pandas.Series(y, dtype="Int64"),
        polars.Series(y), torch.tensor(y), torch.tensor(y, dtype=torch.bfloat16),
        torch.tensor(y, dtype=torch.float32, requires_grad=True), jnp.array(y), jnp.array(y, dtype=jnp.bfloat16),
    ):  # fmt: skip
        assert focus("high", data=data) == expected


y = np.arange(20.0)
CALLS = """
focus(data=y)
    TypeError: focus: exactly one of a word, between and regions must be given, got none. Try focus("high", data=y).
focus("high", data=y, between=(1, 2))
    TypeError: focus: exactly one of a word, between and regions must be given, got a word and between. Try ...
focus("hihg", data=y)
    ValueError: focus: word must be one of 'high', 'low', 'middle', 'extremes', got 'hihg'. Did you mean 'high'?
focus("Tails", data=y)
    ValueError: focus: word must be one of ..., got 'Tails'. Did you mean 'extremes'?
focus("high", data=y, family="sigmoids")
    ValueError: focus: family must be one of 'exp', 'sigmoid', 'sinh', got 'sigmoids'. Did you mean 'sigmoid'?
focus("high", data=y, family="exp", cap=4.0)
    ValueError: focus: cap and edge must be left out with family='exp', whose shape is given.
focus("high", data=y, family="exp", strength=1.0)
    ValueError: focus: strength must be > 1 on these data with family='exp', got 1. Leave family out: ...
focus(regions=[(1, 2), (4, 5)], data=y, family="exp")
    ValueError: focus: family must be left out for 2 regions, got 'exp'.
focus("high", data=y, top=10)
    ValueError: focus: top must be a share of the rows, < 1, got 10.0. For 10 % say top=0.1.
focus("high", data=y, top=0.0)
    ValueError: focus: top must be > 0, got 0.0.
focus("high", data=y, strength=0.5)
    ValueError: focus: strength must be >= 1, got 0.5.
focus("high", data=y, gamma=2.0)
    ValueError: focus: gamma must be left out for single scores, got 2.0. For lists say of='lists'.
focus("high", data=[])
    ValueError: focus: data must hold at least 2 different scores, got shape (0,).
focus("high", data=[2.0, 2.0, 2.0])
    ValueError: focus: data must hold at least 2 different scores, got 2 in all 3 rows. There is nothing ...
focus("high", data=1e200 * y)
    ValueError: focus: data must have scores up to 1e+100 that differ by 1e-100 or more, got scores up to 1.9e+201 ...
focus("middle", data=[1.0, 1.0 + 2.0**-52, 1.0 + 2.0**-51])
    ValueError: focus: data must have scores that can be told apart, got neighbours of 1.0000000000000002 that ...
focus("high", data=[1.0, math.nan, math.inf, 2.0])
    ValueError: focus: data must be finite, got 2 of 4 scores that are not (the first: nan). Drop or impute them, ...
focus("high", data=pandas.Series([1, None, 3], dtype="Int64"))
    ValueError: focus: data must be finite, got 1 of 3 scores that are not (the first: nan). ...
focus("high", data=["1", "2"])
    TypeError: focus: data must be real numbers, got dtype <U1. Give a list, an array or a column of them.
focus("high", data=[True, False])
    TypeError: focus: data must be real numbers, got dtype bool. ...
focus("high", data=np.array(["a", 1.0], dtype=object))
    TypeError: focus: data must be real numbers, got dtype object. ...
focus("high", data={"a": 1})
    TypeError: focus: data must be real numbers, got dict. ...
focus("high", data=[[1.0], [1.0, 2.0]])
    ValueError: focus: data must be a rectangular array of numbers, got lists of other lengths.
focus("high", data=np.ones((4, 3)))
    ValueError: focus: data must have 1 dimension, got shape (4, 3). For one loss of single scores give one column, or \
data.ravel(); for lists of scores say classes=True.
focus("high", data=y, classes=True)
    ValueError: focus: data must have rows of scores (2 dimensions) with classes=True, got shape (20,). For flat ...
focus("high", data=y, weights=[1.0, 2.0])
    ValueError: focus: weights must have one entry per row (20), got shape (2,).
focus("high", data=y, weights=-y)
    ValueError: focus: weights must be finite and >= 0, got -1.0 (in 19 rows).
focus("high", data=y, weights=0 * y)
    ValueError: focus: weights must not all be 0, got only zeros.
focus("high", data=[1, 1, 1, 1, 1, 1, 1, 2], top=0.3)
    ValueError: focus: the region must leave some rows outside, got all 8 rows from 1 up for 'high' with top=0.3. \
Try top=0.125 or less, or between=(low, high).
focus("extremes", data=[1, 2])
    ValueError: focus: the region must leave some rows outside, got all 2 rows up to 1.5 and from 1.5 up for ...
focus(between=(-1, 50), data=y)
    ValueError: focus: the region must leave some rows outside, got all 20 rows between -1 and 50. Choose ...
focus(between=(40, 50), data=y)
    ValueError: focus: the region must hold some rows, got none of 20 between 40 and 50; the scores go from 0 to 19. ...
focus(between=(5, 2), data=y)
    ValueError: focus: between must have low < high, got (5, 2).
focus(between=5, data=y)
    TypeError: focus: between must be (low, high), got 5.
focus(regions=[(1, 2, 0)], data=y)
    ValueError: focus: the weight of regions[0] must be > 0, got 0.0.
focus(regions=[(1, 2), (40, 50)], data=y)
    ValueError: focus: the region must hold some rows, got none of 20 between 40 and 50; the scores go from 0 to 19. ...
focus(regions=[(1,)], data=y)
    TypeError: focus: regions[0] must be (low, high, weight), got (1,).
focus(regions=[], data=y)
    ValueError: focus: regions must have at least 1 entry, got none.
focus(regions=3, data=y)
    TypeError: focus: regions must be a list of (low, high) or (low, high, weight), got 3.
focus(regions=[(0, 9.5, 100), (15, 16, 1)], data=y, strength=1.5, edge=0)
    ValueError: focus: strength must be at least 83.5 with these weights, got 1.5: the region of the smallest weight ...
focus("high", data=y, cap=3.0)
    ValueError: focus: cap must lie above 17.5, where the region from 17.5 up starts, got 3: nothing of it ...
focus("low", data=y, cap=3.0)
    ValueError: focus: cap must lie below 1.5, where the region up to 1.5 starts, got 3: nothing of it ...
focus("high", data=y, cap=17.9)
    ValueError: focus: the region must hold some rows, got none of 20 between 17.5 and 17.9 (with the cap 17.9); ...
focus("high", data=y, edge=-1.0)
    ValueError: focus: edge must be >= 0, got -1.0.
focus("high", data=y, edge=10.0)
    ValueError: focus: edge must be narrow enough that the rows on the ramps leave strength 8 possible, got 10. Try \
edge=4.54 or less.
from_sensitivity([0, 1])
    TypeError: from_sensitivity: values must be given, one for each knot, got None.
from_sensitivity({0: 1}, [1])
    TypeError: from_sensitivity: values must be left out when knots is a mapping, got both.
from_sensitivity({0: 1, "a": 2})
    TypeError: from_sensitivity: knots must be numbers, got [0, 'a'].
from_sensitivity([0, 1], [0, 0])
    ValueError: FromSensitivity: values must not all be 0, got no sensitivity anywhere.
"""
_LINES = [line for line in CALLS.splitlines() if line]


@over(("call", "error"), list(zip(_LINES[::2], _LINES[1::2], strict=True)))
def test_errors(call, error):
    kind, message = error.strip().split(": ", 1)
    with pytest.raises({"ValueError": ValueError, "TypeError": TypeError}[kind]) as caught:
        eval(call)
    got = str(caught.value)
    for part in message.split("..."):
        assert part.strip() in got, got
    assert got.startswith(message.partition("...")[0])


def test_the_widest_edge_in_the_message_works():
    focus("high", data=y, edge=4.54)
    with pytest.raises(ValueError, match="edge must be narrow"):
        focus("high", data=y, edge=4.6)


# -------------------------------------------------------------------------------------------------------- by drawing


def test_from_sensitivity():
    expected = FromSensitivity((0.0, 2.0, 5.0), (0.1, 1.0, 0.3))
    assert from_sensitivity({5: 0.3, 0: 0.1, 2: 1.0}) == expected
    assert from_sensitivity(np.array([0, 2, 5]), pandas.Series([0.1, 1.0, 0.3])) == expected
    assert from_sensitivity([0, 2, 5], (0.1, 1.0, 0.3), smooth=True).smooth
    assert from_sensitivity([0, 1, 1, 2], [1, 2, 0, 0]).slope(1.0) == 2.0


@given(st.integers(0, 2**32 - 1))
def test_data_scale_and_shift_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    sample = rng.normal(size=30)
    assume(len(np.unique(sample)) == 30)
    word = WORDS[seed % 4]
    one, other = focus(word, data=sample), focus(word, data=64.0 * sample + 128.0)
    np.testing.assert_allclose(64.0 * np.array(one.potential.knots) + 128.0, other.potential.knots, rtol=1e-9)
    np.testing.assert_allclose(one.potential.values, other.potential.values, rtol=1e-6)
