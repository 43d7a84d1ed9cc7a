"""The golden rows of BUST, BLUST, LLUST, shifts and ranking reports, by formula and from the definition."""

import json
from functools import cache

import pytest
from golden_rows import Exact, link_of, read, scaling_of

import selmatch as sm
from selmatch.analysis import blust, bust, llust, prediction_shift, ranking_report, region_report, sensitivity

TOLERANCE = 1e-13


@cache
def cases(table: str) -> dict[str, list[dict]]:
    """Rows as dictionaries, by link and its parameters."""
    groups: dict[str, list[dict]] = {}
    for values in read("bust")[table]:
        row = dict(zip(read("bust")["columns"][table], values, strict=True))
        name = json.dumps([row[key] for key in ("link", "params", "alpha", "beta", "S_m", "S_M")])
        groups.setdefault(name, []).append(row)
    return groups


def domain_of(row: dict) -> tuple[float, float]:
    return row["S_m"], row["S_M"]


def close(expected: str, tolerance: float = TOLERANCE):
    return pytest.approx(float(expected), rel=tolerance, abs=0.0)


def test_every_row_is_read():
    assert sum(map(len, cases("bust").values())) == len(read("bust")["bust"]) > 0
    assert sum(map(len, cases("blust").values())) == len(read("bust")["blust"]) > 0


@pytest.mark.parametrize("name", cases("bust"))
def test_bust_by_formula(name):
    for row in cases("bust")[name]:
        value = bust(sm.MatchingLoss(link_of(row)), row["w_u"], row["d"], domain_of(row))
        assert value == close(row["bust_formula"])
        assert value == close(row["bust_limit"])


@pytest.mark.parametrize("name", cases("bust"))
def test_bust_from_the_definition(name):
    tau = 2.0**-6
    for row in cases("bust")[name]:
        link, w, d = link_of(row), row["w_u"], row["d"]
        offset = bust(link, w, d, domain_of(row), tau=tau) * tau
        assert offset == close(row["delta_hat_at_tau_2^-6"])
        # uniform scores: the same as a bias of all scores in the interval
        if row["S_m"] <= w - tau / 2 and w + tau / 2 <= row["S_M"] and w == float(w - tau / 2) + tau / 2:
            assert prediction_shift(link, (w - tau / 2, w + tau / 2), d, domain_of(row)) == close(
                row["delta_hat_at_tau_2^-6"]
            )


@pytest.mark.parametrize("name", cases("bust"))
def test_bust_as_a_limit(name):
    for row in cases("bust")[name]:
        coarse, fine = (bust(link_of(row), row["w_u"], row["d"], domain_of(row), tau=2.0**-k) for k in (40, 41))
        assert 2.0 * fine - coarse == close(row["bust_limit"])


@pytest.mark.parametrize("name", cases("blust"))
def test_blust_and_llust(name):
    for row in cases("blust")[name]:
        link, w, domain = link_of(row), row["w_u"], domain_of(row)
        assert blust(link, w, domain) == close(row["blust_formula"])
        assert blust(link, w, domain) == close(row["blust_limit"])
        if row["llust"] is not None:
            assert llust(link, w, domain) == close(row["llust"])


@pytest.mark.parametrize("name", cases("blust"))
def test_blust_and_llust_as_limits(name):
    for row in cases("blust")[name]:
        for function, expected in ((blust, row["blust_limit"]), (llust, row["llust"])):
            if expected is not None and float(expected) != 0.0:
                coarse, fine = (function(link_of(row), row["w_u"], domain_of(row), tau=2.0**-k) for k in (40, 41))
                assert 2.0 * fine - coarse == close(expected)


def test_shifts_and_sensitivities_of_regions():
    for case in read("derived")["shifts"]:
        link = link_of(case)
        for low, high, bias, shift, mean, weight in case["rows"]:
            assert prediction_shift(link, (low, high), bias, case["S"]) == close(shift)
            (region,) = region_report(link, [(low, high)], domain=case["S"], bias=bias).regions
            assert (region.shift, region.sensitivity, region.weight) == tuple(map(close, (shift, mean, weight)))


def test_parts_of_the_sensitivities_of_classes():
    """Errors of p are those of its log-score, and the response is a sum of terms as large as the ranking part."""
    for case in read("derived")["softmax"]:
        rho = None if set(case["rho"]) == {1.0} else tuple(case["rho"])
        softmax = sm.CompositeSoftmax(scaling_of(case), gamma=case["gamma"], rho=rho, anchor=case["anchor"])
        largest = max(Exact(case, case["s"], case["s_hat"]).largest_logit, abs(case["anchor"] or 0.0) / case["gamma"])
        tolerance = TOLERANCE * max(1.0, largest / 10.0)
        report = ranking_report(softmax, case["s_hat"])
        assert sensitivity(softmax, case["s_hat"]).tolist() == [close(x, tolerance) for x in case["Delta"]]
        for k, found in enumerate(report.classes):
            assert found.probability == close(case["p"][k], tolerance)
            assert found.sensitivity == close(case["Delta"][k], tolerance)
            assert found.region == close(case["region_of_Delta"][k], tolerance)
            assert found.ranking == close(case["ranking_of_Delta"][k], tolerance)
            steps = [abs(softmax.scaling(z)) / case["gamma"] for z in case["s_hat"]]
            room = tolerance * max(steps) * float(case["Delta"][k])
            assert found.response == pytest.approx(float(case["response"][k]), rel=tolerance, abs=room)
