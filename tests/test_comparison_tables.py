"""Reading tables: every malformed table ends in a clear message or in the right rows."""

import dataclasses

import numpy as np
import pandas as pd
import polars
import pytest
from comparison_data import visits

from selmatch.comparison.question import Question
from selmatch.comparison.reading import read, separator_of
from selmatch.comparison.tables import prepare

WISH = {"word": "high", "top": 0.1, "strength": 8.0}


def rows_of(data, target="seconds", **asked):
    return prepare(data, Question(target=target, wish=WISH, **asked))


def column(rows, name):
    return rows.matrix[:, rows.names.index(name)]


def said(rows, *words):
    """The only note that has all these words."""
    found = [note for note in rows.notes if all(word in note for word in words)]
    assert len(found) == 1, rows.notes
    return found[0]


def test_features_become_numbers_and_codes():
    frame = visits()
    rows = rows_of(frame)
    assert rows.names == ("pages", "interest", "shop", "returning")
    assert rows.kinds == ("number", "number", "category", "category")
    np.testing.assert_array_equal(column(rows, "pages"), frame["pages"])
    np.testing.assert_array_equal(column(rows, "interest"), frame["interest"])
    np.testing.assert_array_equal(column(rows, "shop"), frame["shop"].astype("category").cat.codes)
    np.testing.assert_array_equal(column(rows, "returning"), frame["returning"])
    np.testing.assert_array_equal(rows.scores, frame["seconds"])


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.xz", "parquet", "pq"])
def test_files_and_frames_give_the_same_rows(tmp_path, suffix):
    frame, path = visits(), tmp_path / f"visits.{suffix}"
    frame.to_csv(path, index=False) if "csv" in suffix else frame.to_parquet(path)
    rows = rows_of(path)
    assert rows.name == path.name
    assert rows.fingerprint() == rows_of(frame).fingerprint() == rows_of(str(path)).fingerprint()


def test_other_separators_and_an_index_that_was_saved(tmp_path):
    path = tmp_path / "visits.csv"
    visits().to_csv(path, sep=";")
    rows = rows_of(path)
    assert rows.fingerprint() == rows_of(visits()).fingerprint()
    said(rows, "only name the rows", "Unnamed: 0")


def test_polars_frames_and_nullable_columns_just_work():
    frame = visits()
    expected = rows_of(frame).fingerprint()
    assert rows_of(polars.from_pandas(frame)).fingerprint() == expected
    assert rows_of(polars.from_pandas(frame).lazy()).fingerprint() == expected
    assert rows_of(frame.convert_dtypes()).fingerprint() == expected
    assert rows_of(frame.convert_dtypes(dtype_backend="pyarrow")).fingerprint() == expected
    assert rows_of(frame.astype({"shop": "category"})).fingerprint() == expected
    assert rows_of(frame.astype({"shop": object})).fingerprint() == expected


def test_the_frame_of_the_user_stays_as_it_was():
    frame = visits()
    frame.loc[3, "seconds"] = np.nan
    frame.index = np.repeat([5, 6], len(frame) // 2)  # of which no row is found by its label
    before = frame.copy(deep=True)
    rows_of(frame, rows=100)
    pd.testing.assert_frame_equal(frame, before)


# ---------------------------------------------------------------------------------------------------- malformed targets


def test_a_target_that_is_not_there_names_the_nearest():
    with pytest.raises(
        ValueError, match=r"target column must be in data frame, got 'second'. Did you mean 'seconds'\?"
    ):
        rows_of(visits(), target="second")
    with pytest.raises(ValueError, match=r"got 'zzz'. Choose from: pages, interest"):
        rows_of(visits(), target="zzz")


def test_text_in_the_target_names_the_first_cells_and_their_rows():
    frame = visits().astype({"seconds": object})
    frame.loc[4, "seconds"], frame.loc[9, "seconds"] = "1,2", "soon"
    with pytest.raises(
        ValueError, match=r"'seconds' must be numbers, got '1,2' \(row 5\), 'soon' \(row 10\)\."
    ) as told:
        rows_of(frame)
    assert "a point before the decimals" in str(told.value)


def test_a_target_with_commas_is_read_where_they_have_one_meaning(tmp_path):
    frame, path = visits(), tmp_path / "europe.csv"
    frame.to_csv(path, sep=";", decimal=",", index=False)
    rows = rows_of(path)
    np.testing.assert_array_equal(rows.scores, frame["seconds"])
    np.testing.assert_array_equal(column(rows, "interest"), frame["interest"])
    said(rows, "target column 'seconds'", "a comma before the decimals")
    frame["seconds"] = [f"{i + 1},{i % 10}50" for i in range(240)]
    with pytest.raises(
        ValueError, match=r"without doubt, got '1,050' \(row 1\).*thousands or decimals\? Write a point"
    ):
        rows_of(frame)


def test_numbers_that_are_text_and_words_for_nothing_are_read():
    frame = visits()
    frame["seconds"] = frame["seconds"].map(str)
    frame.loc[7, "seconds"] = "n/a"
    rows = rows_of(frame)
    assert len(rows) == len(frame) - 1
    said(rows, "1 rows without a target")


def test_rows_without_a_finite_target_are_left_out_and_counted():
    frame = visits()
    frame.loc[[1, 5], "seconds"], frame.loc[[2, 3, 8], "seconds"] = np.nan, [np.inf, -np.inf, np.inf]
    rows = rows_of(frame)
    said(rows, "2 rows without a target")
    said(rows, "3 rows with an infinite target")
    np.testing.assert_array_equal(rows.places, np.delete(np.arange(len(frame)), [1, 2, 3, 5, 8]))


@pytest.mark.parametrize("value", [7.0, True, "3"])
def test_one_class_only_is_refused(value):
    with pytest.raises(ValueError, match=r"'seconds' must vary, got [731] in all 240 usable rows \(one class only\)"):
        rows_of(visits().assign(seconds=value))


def test_three_rows_are_too_few():
    with pytest.raises(ValueError, match="at least 30 usable rows, got 3 of 3"):
        rows_of(visits(3))
    frame = visits(40)
    frame.loc[:20, "seconds"] = np.nan
    with pytest.raises(ValueError, match="at least 30 usable rows, got 19 of 40"):
        rows_of(frame)


def test_a_target_that_occurs_twice_is_refused():
    frame = visits()
    frame.columns = ["seconds", *frame.columns[1:]]
    with pytest.raises(ValueError, match="'seconds' must occur once"):
        rows_of(frame)


def test_dates_are_no_target():
    frame = visits().assign(seconds=pd.date_range("2024-01-01", periods=240))
    with pytest.raises(ValueError, match="must be numbers, got datetime64"):
        rows_of(frame)


# --------------------------------------------------------------------------------------------------- malformed features


def test_duplicated_columns_are_renamed_with_a_note(tmp_path):
    frame = visits()
    frame.insert(1, "pages", frame["pages"] + 1, allow_duplicates=True)
    frame.insert(2, "pages.1", frame["pages"].iloc[:, 0] + 2)
    path = tmp_path / "twice.csv"
    frame.to_csv(path, index=False)
    for rows in (rows_of(frame), rows_of(path)):
        assert rows.names[:3] == ("pages", "pages.2", "pages.1")
        np.testing.assert_array_equal(column(rows, "pages.2"), column(rows, "pages") + 1)
        said(rows, "same name", "'pages.2'")


def test_constant_empty_and_identifying_columns_are_left_out():
    frame = visits().assign(one=1, nothing=None, empty="", visit=[f"v{i:05}" for i in range(240)])
    rows = rows_of(frame)
    assert rows.names == ("pages", "interest", "shop", "returning")
    said(rows, "same value in all rows", "'one', 'nothing', 'empty'")
    said(rows, "only name the rows", "'visit'")


def test_text_that_reads_as_numbers_is_used_as_numbers():
    frame = visits()
    frame["price"] = [f"{i % 17}.5" for i in range(240)]
    frame.loc[3, "price"], frame.loc[4, "price"] = "1,234", "n/a"
    rows = rows_of(frame)
    found = column(rows, "price")
    assert rows.kinds[rows.names.index("price")] == "number"
    assert found[3] == 1234.0  # others have points before decimals
    assert np.isnan(found[4])
    assert found[5] == 5.5
    note = said(rows, "'price'", "reads as numbers with commas between thousands")
    assert "n/a" not in note  # a usual word for nothing
    frame.loc[3, "price"] = "1,2"
    note = said(rows_of(frame), "'price'", "reads as numbers, and")
    assert "'1,2' (row 4)" in note


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        (lambda i: f"{37 * i:,}", "commas between thousands"),
        (lambda i: f"{37 * i}".replace(".", ","), ""),
        (lambda i: f"${37 * i:,}.00", "the sign '$' and commas between thousands"),
        (lambda i: f"{37 * i} %", "the sign '%'"),
        (lambda i: f"{37 * i},5 €", "the sign '€' and a comma before the decimals"),
        (lambda i: f"{37 * i:,}".replace(",", ".") + ",25", "a comma before the decimals"),
    ],
)
def test_numbers_are_read_as_people_write_them(spelling, words):
    rows = rows_of(visits().assign(price=[spelling(i) for i in range(240)]))
    np.testing.assert_array_equal(np.diff(column(rows, "price")), 37.0)
    if words:
        said(rows, "'price'", f"reads as numbers with {words}, and")


def test_words_among_many_numbers_are_missing():
    cells = [("unknown" if i % 7 == 0 else f"{i / 8}") for i in range(240)]
    rows = rows_of(visits().assign(price=cells))
    assert np.isnan(column(rows, "price")).sum() == 35
    said(rows, "'price'", "'unknown' (35 cells)")
    # a few numbers among words are words too
    rows = rows_of(visits().assign(size=[("large" if i % 3 == 0 else f"{i % 3}") for i in range(240)]))
    assert rows.kinds[rows.names.index("size")] == "category"


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d.%m.%Y %H:%M"])
def test_other_dates_are_read_where_they_have_one_meaning(form):
    days = pd.date_range("2024-01-01", periods=240)
    rows = rows_of(visits().assign(day=days.strftime(form)))
    np.testing.assert_allclose(column(rows, "day")[[0, -1]], [19723.0, 19962.0])
    said(rows, "'day' holds dates", "month before the day" if form.startswith("%m") else "day before the month")


def test_what_looks_like_numbers_and_is_not_read_is_told():
    frame = visits()
    frame["day"] = [f"0{1 + i % 9}/0{1 + i % 7}/2024" for i in range(240)]  # no day after the twelfth decides
    frame["range"] = [f"{i}-{i + 5}" for i in range(240)]
    rows = rows_of(frame)
    assert rows.kinds[rows.names.index("day")] == "category"
    said(rows, "'day' looks like numbers or dates", "'01/01/2024'", "used as categories")
    said(rows, "'range' looks like", "'0-5'", "left out")
    with pytest.raises(ValueError, match=r"numbers or dates such as 2024-05-31, got .* such as '01/01/2024'"):
        rows_of(frame, time="day")


def test_dates_become_numbers_that_grow_with_time():
    days = pd.date_range("2024-02-27 12:00", periods=240, freq="6h")
    frame = visits().assign(text=days.strftime("%Y-%m-%dT%H:%M:%S"), stamp=days, zoned=days.tz_localize("UTC"))
    rows = rows_of(frame)
    for name in ("text", "stamp", "zoned"):
        assert rows.kinds[rows.names.index(name)] == "date"
        np.testing.assert_allclose(np.diff(column(rows, name)), 0.25)


@pytest.mark.parametrize("far", ["9999-12-31", "0001-01-01"])  # as tables write "never" and "always"
def test_dates_beyond_the_range_of_nanoseconds_are_dates(far):
    days = np.where(np.arange(240) % 10, "2024-02-27", far)
    stamps = days.astype("datetime64[s]")
    frame = visits().assign(text=days, stamp=stamps, written=pd.Series(stamps).dt.strftime("%d.%m.%Y"))
    rows = rows_of(frame.assign(month=pd.PeriodIndex(stamps, freq="D"), when=stamps), time="when")
    wanted = stamps.astype(float) / 86_400.0
    for name in ("text", "stamp", "written", "month"):
        np.testing.assert_array_equal(column(rows, name), wanted)
    np.testing.assert_array_equal(rows.time, wanted)


def test_infinite_cells_are_missing_with_a_note():
    frame = visits()
    frame.loc[[2, 3], "interest"] = [np.inf, -np.inf]
    rows = rows_of(frame)
    assert np.isnan(column(rows, "interest")[[2, 3]]).all()
    said(rows, "'interest' has 2 cells that are infinite")
    frame.loc[[2, 3], "interest"] = [1e39, -3e38]
    assert rows_of(frame).fingerprint() == rows.fingerprint()


def test_copies_of_the_target_are_named_loudly():
    frame = visits()
    frame["copy"], frame["logarithm"] = 3.0 * frame["seconds"] + 1.0, np.log(frame["seconds"])
    said(rows_of(frame), "WARNING", "'copy'")
    rows = rows_of(frame, scale="log")
    said(rows, "WARNING", "'copy'")
    said(rows, "WARNING", "'logarithm'")
    assert "copy" in rows.names


def test_a_column_that_looks_like_a_split_is_no_feature():
    frame = visits().assign(split=np.where(np.arange(240) < 200, "train", "test"))
    rows = rows_of(frame)
    assert "split" not in rows.names
    said(rows, "looks like a given split")


def test_nothing_to_learn_from_is_an_error():
    with pytest.raises(ValueError, match="at least one column to learn from, besides 'seconds'"):
        rows_of(visits()[["seconds"]])


def test_names_of_columns_may_be_numbers_and_strange():
    frame = visits()
    frame.columns = [0, 'a"b', "[red]<c>", "{d:e}", 4]
    rows = rows_of(frame, target="4")
    assert rows.names == ("0", 'a"b', "[red]<c>", "{d:e}")


# ----------------------------------------------------------------------------------------------------- scales and sizes


def test_scores_are_logarithms_where_asked():
    frame = visits()
    rows = rows_of(frame, scale="log")
    np.testing.assert_allclose(rows.scores, np.log(frame["seconds"]))
    said(rows, "Scores are log(target)")
    frame.loc[0, "seconds"] = 0.0
    rows = rows_of(frame, scale="log")
    np.testing.assert_allclose(rows.scores, np.log1p(frame["seconds"]))
    said(rows, "log(1 + target)")
    frame.loc[0, "seconds"] = -1.0
    with pytest.raises(ValueError, match="must be >= 0 for scale='log', got -1"):
        rows_of(frame, scale="log")


def test_heavy_tails_are_told():
    frame = visits()
    assert not any("heavy tail" in note for note in rows_of(frame).notes)
    frame.loc[0, "seconds"] = 1e5
    said(rows_of(frame), "heavy tail", "0.83 % of the rows (2)", "scale='log'")
    assert not any("heavy tail" in note for note in rows_of(frame, scale="log").notes)


def test_many_rows_are_sampled_by_the_seed():
    frame = visits(500)
    rows = rows_of(frame, rows=200)
    assert len(rows) == 200
    assert rows.total == 500
    assert (np.diff(rows.places) > 0).all()
    said(rows, "200 of 500 usable rows were sampled")
    np.testing.assert_array_equal(rows.places, rows_of(frame, rows=200).places)
    assert rows.fingerprint() != rows_of(frame, rows=200, seed=1).fingerprint()


def test_groups_are_sampled_whole():
    frame = visits(500).assign(user=np.arange(500) % 50)
    rows = rows_of(frame, rows=205, group="user")
    assert len(rows) == 200
    assert (np.bincount(rows.group) == 10).all()
    frame["user"] = np.where(np.arange(500) < 300, 0, np.arange(500) % 20 + 1)
    assert len(rows_of(frame, rows=200, group="user")) == 200  # all but the large one, which does not fit
    for most, words in (
        (20, "rows must be at least 30, got 20"),
        (35, "groups of 50 to 50 rows. Allow more rows, 500"),
    ):
        with pytest.raises(ValueError, match=words):
            rows_of(frame.assign(user=np.arange(500) % 10), rows=most, group="user")


def test_weights_must_be_numbers_that_are_not_negative():
    frame = visits().assign(weight=1.0)
    frame.loc[:3, "weight"] = 0.0
    rows = rows_of(frame, weights="weight")
    assert len(rows) == 236
    said(rows, "4 rows with a weight of 0")
    for size in (1.0, 1e300, 1e-300):
        np.testing.assert_allclose(rows_of(frame.assign(weight=size), weights="weight").weights, 1.0)
    frame.loc[6, "weight"] = -2.0
    with pytest.raises(ValueError, match=r"'weight' must hold numbers >= 0, got -2 in row 7"):
        rows_of(frame, weights="weight")


def test_huge_targets_are_read_without_a_warning():
    frame = visits()
    assert rows_of(frame.assign(seconds=1e300 * frame["seconds"])).target.max() > 1e300


def test_one_column_plays_one_role():
    with pytest.raises(ValueError, match="target and group must be different columns"):
        rows_of(visits(), group="seconds")


def test_the_fingerprint_sees_everything_that_models_see():
    frame = visits()
    known = {rows_of(frame).fingerprint()}
    for changed in (frame.assign(pages=frame["pages"] + 1), frame.iloc[::-1], frame.rename(columns={"shop": "store"})):
        known.add(rows_of(changed).fingerprint())
    known.add(dataclasses.replace(rows_of(frame), weights=np.ones(240)).fingerprint())
    assert len(known) == 5


# ---------------------------------------------------------------------------------------------------------------- files


def test_files_that_cannot_be_read_say_why(tmp_path):
    def written(name, text):
        path = tmp_path / name
        path.write_bytes(text)
        return path

    with pytest.raises(ValueError, match="got an empty file"):
        read(written("empty.csv", b""))
    with pytest.raises(ValueError, match=r"ragged.csv must be a table that can be read, got: .*line 3"):
        read(written("ragged.csv", b"a,b\n1,2\n1,2,3\n"))
    with pytest.raises(ValueError, match="must be text in UTF-8"):
        read(written("latin.csv", "a,b\né,2\n".encode("latin-1")))
    with pytest.raises(ValueError, match=r"broken.parquet must be a table that can be read"):
        read(written("broken.parquet", b"no parquet"))
    with pytest.raises(ValueError, match=r"broken.csv.gz must be a table that can be read"):
        read(written("broken.csv.gz", b"no gzip"))
    with pytest.raises(ValueError, match=r"must be a \.csv, .*got 'table.xlsx'"):
        read(written("table.xlsx", b""))
    with pytest.raises(FileNotFoundError, match=r"got '.*raged.csv'. Did you mean 'ragged.csv'\?"):
        read(tmp_path / "raged.csv")
    with pytest.raises(TypeError, match="a frame of pandas or polars, got list"):
        read([1, 2, 3])


def test_the_separator_is_the_most_frequent_mark_outside_quotes():
    assert separator_of('"a,b,c";b;c') == ";"
    assert separator_of("a;b,c,d") == ","
    assert separator_of("price, net\tb\tc") == "\t"
    assert separator_of("alone") == ","


def test_a_mark_at_the_start_of_a_file_is_no_part_of_a_name(tmp_path):
    path = tmp_path / "marked.csv"
    visits().to_csv(path, index=False, encoding="utf-8-sig")
    assert read(path).names[0] == "pages"
