"""Certificates in spec files: a true proof is accepted everywhere, and no file makes anything proved."""

import dataclasses
import itertools
import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzzing import proofs

import selmatch as sm
from conftest import LINKS, SOFTMAXES
from selmatch import certify, spec
from selmatch.certificates import for_all_labels
from selmatch.spec import SpecError

FOLDER = Path(__file__).parent / "specs"
RISES = "z - 0.9*sin(z)"
FALLS = "z - 1.001*sin(z)"
#: proofs that take several boxes
CUT = sm.CompositeSigmoid(sm.Cosh(), gamma=1.325)
ALSO_CUT = sm.CompositeSigmoid(sm.Cosh().affine(beta=5.0), gamma=1.31)
FORMULAS = [
    *(sm.parse(text, lower=lower) for text in (RISES, "z^3 + z", "max(z, 0.2*z)", "z + tanh(3*z)") for lower in (0, 1)),
    sm.parse("9*z-3e-6*cos(1e6*z)"), sm.parse("where(z < 1, z, z + 0.5)"), sm.parse("log(z) + 0.1*z"),
    sm.parse("sqrt(z) + sin(z)/10 + z"), sm.parse("-exp(-z)", lower=False).affine(alpha=2.0, beta=0.3, gain=3.0),
    sm.parse(RISES).capped(-2.0, 5.0), sm.Sinh() + sm.parse(RISES),
]  # fmt: skip
PARTS = [
    CUT, ALSO_CUT,
    sm.PerLabel({0.0: sm.parse(RISES), 1.0: sm.Log().affine(beta=-0.5)}),
    sm.PerLabel({-1.0: CUT, 0.0: sm.Sinh(), 2.0: ALSO_CUT}),
    sm.CompositeSoftmax(sm.parse(RISES), gamma=0.5), sm.CompositeSoftmax(sm.parse(RISES), anchor=0.5),
    sm.Separable(sm.parse(RISES)), sm.Separable(sm.Huber()),
]  # fmt: skip
DOMAINS = [(-8.0, 8.0), (0.5, math.inf), (-math.inf, 3.0)]


def answers(potential):
    """What can be proved about a potential, without a look for witnesses."""
    briefly = certify.Effort(seconds=-1.0)
    asked = [lambda: certify.convex(potential), lambda: certify.non_decreasing(potential, (0.1, 3.0))]
    asked += [lambda: certify.convex_primitive(potential.scaling), lambda: certify.flat(potential, (2.0, 3.0))]
    asked += [lambda about=about: certify.odd(potential, about, effort=briefly) for about in (0.0, 0.5)]
    asked += [lambda domain=domain: certify.convex(potential, domain) for domain in DOMAINS]
    asked += [lambda domain=domain: certify.monotone_probability(potential, domain) for domain in (None, *DOMAINS)]
    asked += [lambda: certify.convex(potential, canonicalise="teacher_maximum")]
    asked += [lambda: certify.convex(potential, canonicalise="log_probabilities", effort=briefly)]
    for ask in asked:
        try:
            found = ask()
        except (TypeError, ValueError, AttributeError):
            continue  # a question about other objects, or other scores
        if found and found.evidence:
            yield found


@pytest.fixture
def no_search(monkeypatch):
    """Where a question of a file is asked again, a search is an error."""
    ask_again = certify.ask_again

    def refuse(*arguments):
        raise AssertionError("a search ran")

    def ask_without(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("selmatch.arrays.branching._is_never_negative", "selmatch.logits.search_witness"):
                patch.setattr(name, refuse)
            return ask_again(*arguments)

    monkeypatch.setattr(certify, "ask_again", ask_without)


def content(certificate):
    return certificate.statement, certificate.domain, certificate.evidence, certificate.question


@pytest.mark.parametrize("count", [1, pytest.param(spec.MAX_CERTIFICATES, marks=pytest.mark.slow)])
@pytest.mark.parametrize("potential", [*LINKS, *SOFTMAXES, *FORMULAS, *PARTS], ids=repr)
def test_a_proof_comes_back_without_a_search(potential, count, tmp_path, no_search):
    made = [*itertools.islice(answers(potential), count)]
    assert made
    for saved, name in [(potential, "of.toml"), (sm.MatchingLoss(potential), "of.json")][:count]:
        spec.save(saved, tmp_path / name, certificates=made)
        again = spec.certificates(tmp_path / name)
        assert [*map(content, again)] == [*map(content, made)]
        assert sm.load(tmp_path / name) == saved
    assert all(found.verify() for found in again)


def test_another_process_accepts_the_files(tmp_path):
    made = {f"{i}.toml": (saved, [*itertools.islice(answers(saved), 2)]) for i, saved in enumerate(PARTS[:4])}
    for name, (saved, found) in made.items():
        spec.save(saved, tmp_path / name, certificates=found)
    program = """
import sys
from selmatch import spec
for path in sys.argv[1:]:
    for found in spec.certificates(path):
        print(found.verify(), found.statement, found.domain)
"""
    paths = [str(tmp_path / name) for name in made]
    printed = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True).stdout
    expected = [f"True {c.statement} {c.domain}" for _, found in made.values() for c in found]
    assert printed.splitlines() == expected


def test_the_certificate_of_a_loss_can_be_saved_with_it(tmp_path):
    for potential in (sm.parse(RISES), CUT, *PARTS[4:-1]):
        loss = sm.MatchingLoss(potential)
        loss.save(tmp_path / "loss.toml", certificates=[loss.certificate])
        (again,) = spec.certificates(tmp_path / "loss.toml")
        assert again.domain == loss.certificate.domain
        assert sm.load(tmp_path / "loss.toml", digest=spec.digest(loss)) == loss
        loss.save(tmp_path / "again.toml", certificates=[again])
        assert (tmp_path / "again.toml").read_text() == (tmp_path / "loss.toml").read_text()


def test_the_proof_at_a_threshold_can_be_saved_with_its_loss(tmp_path):
    found = certify.largest_gamma(sm.Cosh())
    loss = sm.MatchingLoss(sm.CompositeSigmoid(sm.Cosh(), gamma=found.low))
    loss.save(tmp_path / "loss.toml", certificates=[found.at_low])
    assert [c.statement for c in spec.certificates(tmp_path / "loss.toml")] == [found.at_low.statement]


def test_a_certificate_of_a_module_is_that_of_its_loss():
    import selmatch.torch

    module = selmatch.torch.MatchingLoss(sm.CompositeSoftmax(sm.SmeLU(), gamma=0.5), canonicalise=False)
    assert certify.convex(module).question == certify.convex(module.loss).question


# ------------------------------------------------------------------------------------------------ files of strangers


def written(folder, potential, *tables, name="file.json"):
    """A file of a stranger."""
    document = spec.to_dict(potential) | {"selmatch": 2, "certificates": list(tables)}
    (folder / name).write_text(json.dumps(document))
    return folder / name


def nonsense(rng, cuts=()):
    """Lists of scores, from none to many."""
    random_scores = (rng.uniform(-9.0, 9.0) for _ in range(rng.choice((0, 1, 5, 40))))
    scores = sorted({*random_scores, *rng.sample(cuts, len(cuts) // 2)})
    return [scores] * rng.choice((0, 1, 3))


FALSE = [
    ("convex", FALLS, [-8.0, 8.0]), ("non_decreasing", "z - 1e-3*step(z - 1)", None), ("convex", "-z", None),
    ("convex_primitive", "cosh(z)", None), ("flat", "1e-9*z", [0.0, 1.0]), ("odd", "exp(z)", None),
    ("convex", "where(z == 2, 0, z)", [1.0, 4.0]), ("convex", "0.9*z - abs(z - 1e-9)", [-1.0, 1.0]),
]  # fmt: skip


@pytest.mark.parametrize(("question", "text", "domain"), FALSE)
def test_no_cuts_make_a_false_statement_proved(question, text, domain, tmp_path):
    rng = random.Random(1)
    for _ in range(4):
        table = {"question": question, "cuts": nonsense(rng, [0.0, 1.0, 2.0])}
        table |= {} if domain is None else {"domain": domain}
        path = written(tmp_path, sm.parse(text, lower=False), table)
        with pytest.raises(SpecError, match=r"certificates\[0\]: does not hold: (Refuted|Undecided): "):
            spec.certificates(path)


@pytest.mark.parametrize("scaling", [sm.Cosh(), sm.parse("cosh(z)", lower=False)], ids=repr)
def test_no_cuts_make_a_composite_with_too_large_a_gamma_proved(scaling, tmp_path):
    table = json.loads(spec.dumps(CUT, "json", [certify.convex(CUT)]))["certificates"][0]
    false = sm.CompositeSigmoid(scaling, gamma=1.5, check=False)
    for potential in (false, sm.PerLabel({0.0: CUT, 1.0: false}), sm.PerLabel({0.0: false, 1.0: CUT})):
        with pytest.raises(SpecError, match=r"does not hold"):
            spec.certificates(written(tmp_path, potential, table | {"cuts": 2 * table["cuts"]}))


def test_a_proof_beside_another_loss_is_refused(tmp_path):
    loss = sm.MatchingLoss(sm.parse("z + tanh(z)", lower=False))
    loss.save(tmp_path / "loss.toml", certificates=[certify.convex(loss, (-8, 8))])
    text = (tmp_path / "loss.toml").read_text()
    (tmp_path / "loss.toml").write_text(re.sub('text = ".*"', f'text = "{FALLS}"', text))
    with pytest.raises(SpecError, match=r"line 12, column 1: certificates\[0\]: does not hold: Refuted"):
        spec.certificates(tmp_path / "loss.toml", check=False)


def test_cuts_that_are_missing_or_in_another_order_prove_nothing_false(tmp_path):
    potential = sm.PerLabel({-1.0: CUT, 2.0: ALSO_CUT})
    (table,) = spec.to_dict(potential, [certify.convex(potential)])["certificates"]
    for cuts in (table["cuts"][::-1], [], [[]], table["cuts"][:1], [table["cuts"][0][::2], table["cuts"][1]]):
        try:
            found = spec.certificates(written(tmp_path, potential, table | {"cuts": cuts}))
        except SpecError as error:
            assert "does not hold: Undecided" in str(error)  # noqa: PT017
        else:
            assert all(part.verify() for part in found)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_random_questions_with_random_cuts_are_never_proved_wrongly(seed):
    rng = random.Random(seed)
    cases = proofs.cases(rng)
    for case in itertools.islice(cases, 15):
        if case.question not in certify.QUESTIONS:
            continue
        try:
            curve = proofs.library_curve(case.source)
            question = certify.Question(case.question, curve, None if case.question == "odd" else case.domain)
            found = certify.ask_again(question, tuple(map(tuple, nonsense(rng, [*proofs._places(case)]))))
        except (ValueError, TypeError, ArithmeticError):
            continue
        if found:
            assert not proofs._judged(case, found).fault


def test_parts_without_evidence_leave_a_proof_unverified():
    proved = certify.convex(sm.Sinh())
    bare = certify.Proved(proved.statement, proved.domain, "somebody says so")
    assert not for_all_labels({0.0: proved, 1.0: bare}).verify()


# ---------------------------------------------------------------------------------------------------------- the form


GOOD = {"question": "convex", "domain": [-8.0, 8.0], "cuts": [[-8.0, 8.0]]}
WRONG = [
    (7, "certificates[0]: must be a table, got 7"),
    ({}, "certificates[0].question: must be a question of selmatch.certify, got null"),
    ({"question": "convexx"}, "certificates[0].question: must be a question of selmatch.certify, got 'convexx'"),
    (GOOD | {"proof": 1}, "certificates[0].proof: convex has no field 'proof'. "),
    (GOOD | {"effort": 1}, "certificates[0].effort: convex has no field 'effort'. "),
    (GOOD | {"about": 1.0}, "certificates[0].about: convex has no field 'about'. "),
    ({"question": "odd", "domain": [0, 1]}, "certificates[0].domain: odd has no field 'domain'. "),
    ({"question": "odd", "about": "inf"}, "certificates[0].about: must be a number"),
    (GOOD | {"canonicalise": "so"}, "certificates[0].canonicalise: must be one of log_probabilities, teacher_maximum"),
    (GOOD | {"domain": [1.0, 1.0]}, "certificates[0].domain: must be two numbers, the lower one first."),
    (GOOD | {"domain": [1.0, 2.0, 3.0]}, "certificates[0].domain: must be two numbers"),
    (GOOD | {"domain": [[1.0], 2.0]}, "certificates[0].domain: must be two numbers"),
    (GOOD | {"domain": 3.0}, "certificates[0].domain: must be two numbers"),
    (GOOD | {"cuts": 1.0}, "certificates[0].cuts: must be a list of lists of numbers"),
    (GOOD | {"cuts": [1.0]}, "certificates[0].cuts: must be a list of lists of numbers"),
    (GOOD | {"cuts": [[[1.0]]]}, "certificates[0].cuts: must be a list of lists of numbers"),
    (GOOD | {"cuts": [[1.0, "2"]]}, "certificates[0].cuts[0][1]: must be a number"),
    (GOOD | {"cuts": [["inf"]]}, "certificates[0].cuts[0][0]: must be a number"),
    (GOOD | {"cuts": [[1.0], [2.0, 2.0]]}, "certificates[0].cuts[1]: must be increasing"),
    (GOOD | {"cuts": [[*range(spec.MAX_CUTS + 1)]]}, "certificates: must not hold more than 5,000 cuts together, got"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "message"), WRONG, ids=[message[:60] for _, message in WRONG])
def test_certificates_of_the_wrong_form_are_refused_by_all_readers(table, message, tmp_path):
    path = written(tmp_path, sm.Sinh(), table)
    for read in (spec.load, spec.certificates, lambda path: spec.from_dict(json.loads(path.read_text()))):
        with pytest.raises(SpecError, match=re.escape(message)) as caught:
            read(path)
        assert caught.value.key[0] == "certificates"


def test_loading_passes_over_what_is_proved(tmp_path):
    path = written(tmp_path, sm.parse("cosh(z)"), GOOD, {"question": "odd", "about": 1})
    assert spec.load(path) == sm.parse("cosh(z)")
    with pytest.raises(SpecError, match=r"certificates\[0\]: does not hold"):
        spec.certificates(path)


def test_a_question_that_does_not_fit_the_object_is_refused_with_its_place(tmp_path):
    for object, table in (
        (sm.CompositeSoftmax(), {"question": "non_decreasing"}),
        (sm.Sinh(), {"question": "monotone_probability"}),
        (PARTS[2], {"question": "flat"}),
        (sm.Log(), {"question": "convex", "domain": [-3.0, -1.0]}),
        (sm.CrossEntropy(sm.CompositeSoftmax(sm.Sinh())), {"question": "convex"}),
        (sm.Sinh(), {"question": "convex", "canonicalise": "teacher_maximum"}),
    ):
        with pytest.raises(SpecError, match=r"file.json, line \d+, column \d+: certificates\[0\]: "):
            spec.certificates(written(tmp_path, object, table))


def test_what_would_take_long_is_refused(tmp_path, monkeypatch):
    rises = sm.parse("z", lower=False)
    with pytest.raises(SpecError, match="more than 16 certificates, got 17"):
        spec.load(written(tmp_path, rises, *[GOOD] * 17))
    path = written(tmp_path, sm.parse(RISES), *[GOOD | {"cuts": [[i / 20 for i in range(-160, 160)]]}] * 3)
    assert len(spec.certificates(path)) == 3
    monkeypatch.setattr(spec, "MAX_CHECKS", 4_000)  # enough for one
    with pytest.raises(SpecError, match=r"certificates\[2\]: does not hold: .*operations would be needed"):
        spec.certificates(path)
    large = sm.Sum(tuple(sm.Inverse(sm.Sinh()).affine(beta=float(i)) for i in range(40)))
    with pytest.raises(SpecError, match=r"certificates: take too long to check"):
        spec.certificates(written(tmp_path, large, *[{"question": "convex"}] * 16))


# -------------------------------------------------------------------------------------------------- what can be saved


@pytest.mark.parametrize(
    ("certificates", "error", "message"),
    [
        (certify.convex(sm.Sinh()), TypeError, "certificates must be a list"),
        ([3], TypeError, "certificates[0] must be Proved, got 3. Only proofs can be saved."),
        ([certify.convex(sm.Cosh())], TypeError, "certificates[0] must be Proved, got Refuted: "),
        ([certify.convex(sm.Sinh()), certify.convex(sm.Exp())], ValueError, "certificates[1] must be about the object"),
        ([certify.Proved("fine", sm.Interval(), "trust me")], ValueError, "certificates[0] must answer one question"),
        ([certify.Proved("it is fine", sm.Interval(), "trust me", question=certify.Question("convex", sm.Sinh()))],
         ValueError, "certificates[0] must be one that verify() accepts"),
    ],
)  # fmt: skip
def test_only_proofs_about_the_object_itself_can_be_saved(certificates, error, message, tmp_path):
    for save in (
        lambda: spec.save(sm.Sinh(), tmp_path / "link.toml", certificates=certificates),
        lambda: spec.dumps(sm.Sinh(), certificates=certificates),
        lambda: spec.to_dict(sm.Sinh(), certificates),
        lambda: sm.MatchingLoss(sm.Sinh()).save(tmp_path / "link.json", certificates=certificates),
    ):
        with pytest.raises(error, match=re.escape(message)):
            save()
    assert not [*tmp_path.iterdir()]


def test_a_proof_that_would_not_be_accepted_again_is_refused_when_it_is_saved():
    proved = certify.convex(sm.Sinh())
    claimed = dataclasses.replace(proved, question=certify.Question("convex", sm.Cosh()))
    with pytest.raises(SpecError, match=r"certificates\[0\]: does not hold: Refuted"):
        spec.dumps(sm.Cosh(), certificates=[claimed])


def test_without_python_flint_structural_proofs_hold_and_others_name_the_extra(tmp_path, monkeypatch):
    spec.save(sm.Sinh(), tmp_path / "known.toml", certificates=[certify.convex(sm.Sinh())])
    potential = sm.CompositeSoftmax(sm.parse(RISES))
    made = [certify.convex(potential, (-8, 8)), certify.monotone_probability(potential, (0.1, 3.0))]
    for i, found in enumerate([*made, certify.flat(sm.parse("max(min(z, 1), 0)", lower=False), (2, 3))]):
        spec.save(found.question.subject, tmp_path / f"{i}.toml", certificates=[found])
    monkeypatch.setattr("selmatch.certify._has_intervals", lambda: False)
    assert spec.certificates(tmp_path / "known.toml")
    for i in range(3):
        with pytest.raises(
            SpecError, match=r'certificates\[0\]: cannot be checked here: .*pip install "selmatch\[proofs\]"'
        ):
            spec.certificates(tmp_path / f"{i}.toml", check=False)


# ---------------------------------------------------------------------------------------------------------- versions


def test_only_documents_with_certificates_have_the_newer_schema(monkeypatch):
    plain, proved = spec.dumps(sm.Sinh()), spec.dumps(sm.Sinh(), certificates=[certify.convex(sm.Sinh())])
    assert plain.splitlines()[1] == "selmatch = 1"
    assert spec.dumps(sm.Sinh(), certificates=[]) == plain
    assert proved.splitlines()[1] == "selmatch = 2"
    for text in (plain, plain.replace("selmatch = 1", "selmatch = 2"), proved):
        assert spec.loads(text) == sm.Sinh()
    with pytest.raises(SpecError, match=r"certificates: need a newer schema\. Write selmatch = 2 at the top"):
        spec.loads(proved.replace("selmatch = 2", "selmatch = 1"))
    monkeypatch.setattr(spec, "SCHEMA", 1)  # as older versions
    with pytest.raises(SpecError, match="Upgrade selmatch"):
        spec.loads(proved)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("schema_2/*.*")), ids=lambda file: file.name)
def test_stored_certificates_are_accepted(file):
    asked = [line.split('"')[-2] for line in file.read_text().splitlines() if "question" in line]
    assert len(asked) >= 2
    assert [found.question.name for found in spec.certificates(file)] == asked
