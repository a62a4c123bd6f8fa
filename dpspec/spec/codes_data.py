"""Diagnostic codes of the data layer (DP5xx); see :mod:`dpspec.spec.codes`."""

from __future__ import annotations

from dpspec.spec.codes import Code

_SILENT = (
    "On private data the message names only what the spec already says (the file, the column): a row number or a cell"
    " in an error message is an unaccounted release, and error messages end up in logs and tickets."
)

CODES: dict[str, Code] = {
    "DP501": Code(
        "The data file cannot be opened",
        "The path leads to nothing, to a folder, or to a file that may not be read. A relative path is taken from the "
        "folder of the spec, not from the folder in which the command was started; `--data FILE` overrides the path of "
        "the spec. An address (http:, s3:, file:, another machine's share) is no path: nothing is fetched. A pipe or a device is no file "
        "either. Public files must be there when a plan is made, since the plan holds the digest of their content; a private one need not.",
        bad='from "data/adlt.csv" target "income"',
        good='from "data/adult.csv" target "income"',
    ),
    "DP502": Code(
        "The data file cannot be read as its format",
        "The ending of the file name decides how it is read: .csv and .tsv (text with a header row), .parquet, .arrow and"
        " .feather, .npy and .npz (never with pickled objects), .svm, .libsvm and .txt (libsvm text, indices from 1). The"
        " content did not fit that format: a truncated or damaged file, rows of different length, or a wrong ending.",
    ),
    "DP503": Code(
        "A column that the spec names is not in the data",
        "Target, columns and encodings are found by name. Names must agree letter for letter, including case. "
        + _SILENT
        + " For that reason a similar column of a private file is suggested only when the first row looks like a header.",
        bad='target "income>50k"',
        good='target "income>50K"',
    ),
    "DP504": Code(
        "A value is missing",
        "Records with missing values are refused instead of dropped or filled in: dropping changes n with the data, and "
        "filling in from other records makes one record move many others, which breaks every sensitivity. Fill in with a "
        "constant before loading, or make 'missing' a declared level. Only a question that allows missing entries of x takes them. "
        + _SILENT,
    ),
    "DP505": Code(
        "A cell is not a number",
        "A column without an encoding must hold numbers. Words become numbers through a declared encoding: levels for "
        "features, a map rule on the domain of y for labels. Encodings learned from the records would be a release of "
        "their own. " + _SILENT,
        good='encode workclass as levels("Private", "State-gov", "other")',
    ),
    "DP506": Code(
        "A value is infinite",
        "An infinite value survives clipping by scaling as NaN and makes the sensitivity meaningless, so it is refused at"
        " loading. " + _SILENT,
    ),
    "DP507": Code(
        "The data has another number of records than the spec declares",
        "The noise of a plan is calibrated for the declared n. On private data n is public because the author declared "
        "it; the run is refused when the file disagrees, and n is never taken from the file. Under replace-one and zero-out"
        " neighbours have equally many records, so the refusal tells nothing that is protected. Under add-remove private data"
        " are never refused for their number: it is private, and n is the number that sums are divided by.",
        bad="n = 569        # 570 rows in the file",
        good="n = 570",
    ),
    "DP508": Code(
        "The encoded records have another dimension than the spec declares",
        "d counts the columns after encoding: each level of a categorical column is one, and the intercept is one. The "
        "message lists where the columns come from.",
    ),
    "DP509": Code(
        "Too few records",
        "A data set with no record, or with one, is refused: under replace-one neighbours a data set of one record can "
        "only be answered with noise, and most formulas divide by n or n-1. Under add-remove private data of any number of "
        "records are answered, as their number is private.",
    ),
    "DP510": Code(
        "A category outside the declared levels",
        "one-hot(k) takes the integer codes 0, ..., k-1 and levels(...) the listed words. Any other category is refused, "
        "because adding a column for it would make the dimension depend on the data. Declare an additional level if such "
        "records are expected. " + _SILENT,
    ),
    "DP511": Code(
        "The table does not look like comma-separated text with a header row",
        "Everything ended up in one column whose name contains another delimiter, or the first row holds numbers where "
        "column names belong. CSV files are read with a comma and need a header row; use the ending .tsv for tabs.",
    ),
    "DP512": Code(
        "Not a bundled scikit-learn data set",
        "Only the data sets that ship inside scikit-learn are loaded by name: breast_cancer, diabetes, digits, wine, "
        "iris. dpspec downloads nothing; save other sets to a file and load that.",
        bad='from sklearn "california_housing"',
        good='from sklearn "diabetes"',
    ),
    "DP513": Code(
        "There is no data to run on",
        "The spec names no source, or `from memory` without arrays handed over through the Python API.",
        good="plan.run(X, y)",
    ),
    "DP514": Code(
        "An encoding is not well defined",
        "one-hot needs a whole number of at least 1, levels needs distinct words, range(a, b) needs a < b, standard(m, s)"
        " needs s > 0; a column has one encoding; and the numbers must come from the spec, not from the records.",
    ),
    "DP515": Code(
        "Arrays in memory that cannot be used",
        "Accepted are a NumPy array, a scipy sparse matrix, a pair (X, y), a mapping with the keys x, y and public_x, a "
        "pandas or polars frame, an Arrow table, or a mapping from column names to columns; lengths and widths must "
        "agree.",
    ),
    "DP516": Code(
        "Two columns have one name",
        "Columns are found by name, so a name may occur once.",
    ),
    "DP517": Code(
        "The public size of private data is not declared",
        "On private data n must stand in the spec: reading it from the file would release it without account, and no "
        "noise can be calibrated before the data is read.",
        good="n = 48_842",
    ),
    "DP518": Code(
        "A public file is the private one",
        "Public records and the vertices of a set enter a release without noise, so the release would depend on the private records in a "
        "way that no draw covers. One file under two names is told by path, by link (one inode), and by its bytes; that is decided before "
        "either is read as records, when a plan is made (where the private file is there) and again by every run. A copy that was written "
        "anew, with other columns or in another format, cannot be told without comparing records, and the answer would be a "
        "statement about them: that a public file is public is your word. The refusal of a byte-for-byte copy is one bit about the "
        "private file, like every refusal; whoever sees it should be somebody who may see the data.",
        bad='from "survey.csv" target "y"    with public x (m = 100, path "survey.csv")',
        good='from "survey.csv" target "y"    with public x (m = 100, path "census-extract.csv")',
    ),
    "DP519": Code(
        "A set is spanned by the rows of a file",
        "The points of a polytope are mixtures of its vertices, and an algorithm that walks from vertex to vertex releases few of them "
        "nearly as they are. If they were chosen from the private records, that is a release which nothing covers. The content of the file "
        "is part of the plan's hash, so what was reviewed is what runs.",
        good="vertices that come from the problem: prices, extreme mixtures, admissible designs",
    ),
    "DP524": Code(
        "A public file is not the one that the plan was made with",
        "The content of public records, of vertices and of options that are files is part of a plan. It changed between the plan and "
        "the run, so the run would not be the one that was planned.",
        good="plan again, and compare with `dpspec plan SPEC --against FILE`",
    ),
    "DP525": Code(
        "Words that a map does not list",
        "A map of words must say something of every record, or one record could stop a run and so tell that it is there. A word that "
        "is not listed becomes the first image. With private data nothing may be printed about it: two spellings of a label, or a category "
        "that was forgotten, cost the whole budget for constant labels. Public data are refused with the row and the word.",
        good='y in {-1, 1} by map("no" -> -1, "No" -> -1, "yes" -> 1, "Yes" -> 1)',
    ),
    "DP526": Code(
        "The records do not fit",
        "An algorithm that asks for all records at once has them in memory, several times while they are read; the plan's cost says how "
        "much that is (records_bytes). One that reads in passes or by row keeps the enforced records in a file without a name in the "
        "folder of temporary files (disk_bytes). Either is compared with what there is before a record is read, by public numbers alone.",
        good="an algorithm that reads sums or passes (dpspec algorithms ID), a machine with more memory, TMPDIR on a larger disk",
    ),
    "DP527": Code(
        "The address of a database",
        "A spec is shared, printed and hashed, so the address of a database says where the records are, and not by whose leave: a user or "
        "a password in it, or in the query, is refused and not repeated. They come from the environment of the process that reads: PGUSER, "
        "PGPASSWORD, PGPASSFILE, PGSERVICE. Known are PostgreSQL servers and files of SQLite and DuckDB; rows of any other database can be "
        "handed over in Python as an Arrow reader.",
        bad='from "postgresql://ada:secret@db.example/clinic" query "select age, income from people"',
        good='from "postgresql://db.example/clinic" query "select age, income from people"',
    ),
    "DP528": Code(
        "A database that cannot be read",
        "The driver is not installed, the server does not answer, or it refuses the query: one statement that gives rows, asked over a "
        "connection that may only read. What a database or its driver says can quote a cell, a user or an address, so it is not passed on.",
        good="pip install 'dpspec[sql]', and the same query with psql, sqlite3 or duckdb as the same user",
    ),
    "DP529": Code(
        "A record is a row of what a query gives",
        "Sensitivities hold for one row of the result. A query that joins, ranks, averages, numbers or limits rows can let one person move "
        "many of them, and then the guarantee is not about persons. Views and functions can do so without a word that shows, so this is "
        "said of every query on private data.",
        bad="select income - avg(income) over () as above from people",
        good="select age, income from people",
    ),
    "DP520": Code(
        "The rule cannot enforce the declared set",
        "scale enforces balls; clip enforces boxes, intervals, linf balls and (by the nearest listed value) finite sets; "
        "shrink(tau) bounds every coordinate by tau, so the set must contain the cube of that size; reject replaces what "
        "lies outside by zeros, so zero must be in the set; map needs a finite set that contains its images. No rule is "
        "known for simplex, sparse and polytope domains of records.",
        bad="x in ball(l2, 1) by clip",
        good="x in ball(l2, 1) by scale",
    ),
    "DP521": Code(
        "The declared set has no usable size",
        "A radius must be a positive number, an interval must have its ends in order, a finite set must not be empty.",
    ),
    "DP522": Code(
        "The enforcement needs a dense array",
        "Clamping to a box without zero would turn every absent entry of a sparse matrix into a stored one. Shift the "
        "column, choose a box that contains zero, or hand over a dense array.",
    ),
    "DP523": Code(
        "A domain of something that is not a record variable",
        "Domains are declared for x (the features of a record) and y (its target).",
    ),
    "DP530": Code(
        "Unknown law",
        "A simulate block may use the laws that the documentation lists (normal, student-t, lognormal, uniform-cube, "
        "...). Laws are drawn from a fixed vocabulary; text is never evaluated.",
        bad="x ~ gausian(0, I)",
        good="x ~ normal(0, I)",
    ),
    "DP531": Code(
        "A law with the wrong arguments",
        "The number of arguments, a range (degrees of freedom, scale, sparsity), or a shape (a vector where a number belongs) is wrong.",
    ),
    "DP532": Code(
        "A law refers to something that is not declared",
        "Laws may use n, d, the constants of the data block, and variables whose law stands above.",
    ),
    "DP533": Code(
        "The simulate block lacks a law",
        "A simulated data set needs a law for x; a target needs one for y; a variable has one law.",
    ),
    "DP540": Code(
        "More rounds than records",
        "Algorithms that use every record in one round split the records into T disjoint batches of floor(n/T). With more"
        " rounds than records the batches would be empty.",
    ),
}
