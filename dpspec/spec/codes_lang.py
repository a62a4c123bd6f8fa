"""Diagnostic codes of the language, DP100 to DP150; see :mod:`dpspec.spec.codes`."""

from __future__ import annotations

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {
    "DP100": Code(
        "the file cannot be read",
        "The path names nothing, a folder, a device, a file without read permission, or a file whose ending is neither .dps nor "
        ".yaml/.yml. The ending decides which surface the text is read as.",
        "dpspec check income",
        "dpspec check income.dps",
    ),
    "DP101": Code(
        "the file is too large",
        "A spec is a page of text. Files above 256 KiB are refused before they are read, so that a wrong path (a data file, a core "
        "dump) or a hostile upload costs nothing. Vertices of a polytope and public records live in files of their own, named by the spec.",
    ),
    "DP102": Code(
        "the text is not clean UTF-8",
        "Specs are UTF-8. A byte order mark at the start and Windows line ends are accepted. Bytes that are not UTF-8 and control "
        "characters other than tab and line feed are refused, because an editor hides them and two readers may disagree about them.",
    ),
    "DP103": Code(
        "the file is empty",
        "There is nothing but spaces and comments. An analysis needs a name, data, a privacy budget and one release.",
        "",
        'analysis "mean income"\n\ndata\n  n = 1000\n  x in [0, 1] by clip\n\nprivacy central\n  epsilon = 1\n\nrelease mean\n '
        " estimate mean(x)",
    ),
    "DP104": Code(
        "a tab in the indentation",
        "Indentation says which section a line belongs to, and a tab has no agreed width. Both surfaces indent with spaces. Tabs "
        "elsewhere in a line are plain space.",
    ),
    "DP105": Code(
        "the indentation is wrong",
        "Sections begin at the margin and their lines are indented, all by the same amount; a line indented deeper continues the one "
        "before it. A line that belongs to a section but stands at the margin, or one indented less than its neighbours, is refused "
        "rather than guessed at: a misplaced `by clip` could otherwise change what is enforced.",
        "privacy central\nepsilon = 1",
        "privacy central\n  epsilon = 1",
    ),
    "DP106": Code(
        "the text does not follow the grammar",
        "At the underlined place the language allows something else. The help lists what may stand there.",
        "delta = 1//n",
        "delta = 1/n",
    ),
    "DP107": Code(
        "an unknown word or key",
        "Every key and keyword is known to the language, and an unknown one is an error: a misspelt `neighbors` that is silently ignored "
        "would change every sensitivity. The nearest known word is suggested when there is one.",
        "neighbors: add-remove",
        "neighbours: add-remove",
    ),
    "DP108": Code(
        "a required part is missing",
        "An analysis has a name, a `data` section, a `privacy` section with a model and a budget, and at least one release with a task. "
        "Nothing of this has a default, because each of them changes what is protected.",
    ),
    "DP109": Code(
        "something is given twice",
        "Two values for one thing leave open which one counts. YAML loaders commonly keep the last, people commonly read the first; for a "
        "privacy budget neither is acceptable.",
        "epsilon: 1\nepsilon: 8",
        "epsilon: 1",
    ),
    "DP110": Code(
        "a value of the wrong shape",
        "The key takes a single value, a list or a mapping, and got another of these. The usual reasons are an unquoted `{-1, 1}` or "
        "`[0, 1]` in YAML, which YAML reads as a mapping or a list, and a missing value after the colon.",
        "domain:\n  y: {-1, 1}",
        'domain:\n  y: "{-1, 1}"',
    ),
    "DP111": Code(
        "an unreadable character or text",
        "A quote without its partner, an unknown escape, or a character that has no meaning in the language. Texts stand in double "
        "quotes and end on the line they begin on.",
    ),
    "DP112": Code(
        "too deep or too long",
        "Nesting, the depth of an expression, the length of one item and the number of entries are bounded, so that every input is "
        "read in bounded time and memory. No honest analysis comes near the bounds (64 nested brackets, 60 levels, 4000 tokens).",
    ),
    "DP113": Code(
        "a number outside the accepted range",
        "Numbers are kept exactly, as written. They have at most 64 digits and lie between 1e-300 and 1e300 in size, or are zero, so "
        "that every one of them is also a finite, normal double.",
        "epsilon: 1e400",
        "epsilon: 1",
    ),
    "DP114": Code(
        "an expression has no finite value",
        "The expression divides by zero, takes the logarithm of a negative number, overflows, or names infinity or not-a-number, where "
        "the language needs a finite real number. A budget of NaN compares false with everything and would pass a naive check.",
        "epsilon = 1/0",
        "epsilon = 1",
    ),
    "DP115": Code(
        "an unknown function or a wrong number of arguments",
        "Expressions are made of a fixed set of functions: exp, log, sqrt, abs, max, min, sin, cos, tanh, erf, ceil, floor. A loss may "
        "also use the named losses (logistic, squared, huber, ...) and regularisers (`0.1*|w|_1`, `group(w, 5)`), a law of study mode the "
        "named laws.",
    ),
    "DP116": Code(
        "a name that means nothing here",
        "Numbers of an analysis are built from n, d, the constants of `data`, and pi. A loss is built from w, x, y (x1, y1, x2, y2 when "
        "it is pairwise) and those. A budget that depends on a name nobody defined cannot be checked.",
        "delta = 1/N",
        "delta = 1/n",
    ),
    "DP120": Code(
        "the text is not YAML",
        "The YAML reader stopped at the underlined place. Texts that hold `: ` or ` #`, or that begin with one of the characters "
        "{ [ | > & * ! % @ `, need quotes.",
    ),
    "DP121": Code(
        "an alias, anchor or merge key that a spec does not need",
        "A handful of aliases is accepted. More than 16, aliases to nothing or to themselves, and merge keys are refused: nested aliases "
        "grow exponentially when expanded, and merge keys hide which value counts.",
    ),
    "DP122": Code(
        "a YAML tag or directive",
        "Tags ask a loader to build objects. The language gives every value its type, so tags are never needed and are refused.",
    ),
    "DP123": Code(
        "more than one document",
        "A YAML spec is one document. Most readers would silently ignore the second one, and with it whatever it says about the budget.",
    ),
    "DP124": Code(
        "the version of the language",
        "A YAML spec begins with `dpspec: 1`, so that a later version of the language can read it as it was meant.",
        "analysis: income",
        "dpspec: 1\nanalysis: income",
    ),
    "DP130": Code(
        "there is no privacy budget",
        "The `privacy` section says how much may be spent: epsilon (with delta for approximate differential privacy), rho "
        "(zero-concentrated) "
        "or mu (Gaussian). There is no default: a default budget is a decision that nobody took.",
        "privacy central",
        "privacy central\n  epsilon = 1, delta = 1e-6",
    ),
    "DP131": Code(
        "more than one kind of budget",
        "epsilon, rho and mu measure the same spending in different currencies; two of them at once leave open which one binds.",
        "epsilon = 1, rho = 0.1",
        "rho = 0.1",
    ),
    "DP132": Code(
        "a budget outside its range",
        "A budget is a positive number. Zero allows no release at all, a negative one means nothing, and above 1000 there is no protection "
        "left to speak of; below 1e-9 no release carries information.",
        "epsilon = 0",
        "epsilon = 0.5",
    ),
    "DP133": Code(
        "delta outside (0, 1)",
        "delta is the probability mass on which the epsilon guarantee may fail. Pure differential privacy is asked for by leaving delta "
        "out, not by delta = 0; delta = 1 allows publishing everything.",
        "epsilon = 1, delta = 0",
        "epsilon = 1",
    ),
    "DP134": Code(
        "delta without epsilon",
        "delta belongs to epsilon. rho and mu state a whole trade-off curve and take no delta; reports convert them at several deltas.",
        "rho = 0.1, delta = 1e-6",
        "rho = 0.1",
    ),
    "DP140": Code(
        "a size that is no positive whole number",
        "n, d and m count records, coordinates and public records. They are public and declared: a count read from private data would "
        "be a release of its own.",
    ),
    "DP141": Code(
        "a set that is empty or degenerate",
        "A radius and a number of non-zero coordinates are positive, an interval has its ends in order, and a finite set has "
        "at least one value, each once.",
        "x in ball(l2, 0)",
        "x in ball(l2, 1)",
    ),
    "DP142": Code(
        "an enforcement that does not fit its set",
        "`scale` multiplies a record by min(1, r/norm): it puts records into a ball. `clip` clamps coordinate by coordinate: "
        "into a box, an "
        "interval or an linf ball; clamping does not put a record into an l2 ball. `map` replaces values: into a finite set. `shrink(t)` "
        "clamps the size of every coordinate at t > 0. Sensitivity is computed from what the enforcement guarantees, so the two must fit.",
        "x in ball(l2, 1) by clip",
        "x in ball(l2, 1) by scale",
    ),
    "DP143": Code(
        "shares or parts that do not add up",
        "`share` is a positive weight in the common budget, given for every release or for none. `part` is a fraction of the records; "
        "disjoint parts compose in parallel, so they add up to at most 1, and each has the whole budget: a share says nothing there.",
    ),
    "DP144": Code(
        "a target that cannot be met or means nothing",
        "`expect MEASURE <= VALUE with probability P` has a positive value and a probability strictly between 0 and 1.",
    ),
    "DP145": Code(
        "an encoding that cannot work",
        "one-hot(k) needs a whole number of levels, at least 2 and at most a million; range(a, b) needs a < b; standard(m, s) needs s > 0; "
        "levels lists two or more texts, each once. The numbers are declared by the author: learning them from the records "
        "would be a release.",
    ),
    "DP146": Code(
        "a study that cannot be run",
        "`trials` is a positive whole number, `seed` a non-negative one, and `vary` runs n, d, m, a budget that the spec gives, or a "
        "constant of `data` over one or more distinct values.",
    ),
    "DP147": Code(
        "an argument that the task cannot take",
        "The number of components of a mixture, the dimension of a subspace and the width of a marginal are positive whole "
        "numbers; a missing "
        "rate lies in [0, 1); `over` belongs to minimise and estimate. The sizes of `group(w, ...)` are whole numbers, and several add up "
        "to d.",
    ),
    "DP148": Code(
        "the model of y has another form",
        "`estimate theta in y = <theta, x> + noise` is the linear model; `y = f(<theta, x>) + noise` a non-linear one, where "
        "theta and x enter "
        "through their inner product alone; `y ~ glm(link)` a generalised linear one.",
        "estimate theta in y = theta*x",
        "estimate theta in y = <theta, x> + noise",
    ),
    "DP149": Code(
        "too many errors",
        "After 100 errors the rest is counted and not shown. The first ones often cause the later ones.",
    ),
    "DP150": Code(
        "a name of the wrong form",
        "Names of releases, constants and variables begin with a letter and go on with letters, digits and underscores (releases also with "
        "hyphens), so that both surfaces can write them. Greek letters are spelt out.",
        "releases:\n  my weights: ...",
        "releases:\n  my-weights: ...",
    ),
    "DP151": Code(
        "bounds of what one unit contributes do not fit together",
        "Where a unit has several records, `identified by` names the column that tells units apart, and `at most 3 rows, 2 groups a "
        "person` says how much of one counts; the executor keeps that much at random. Without a column no bound could be enforced; without "
        "a bound on rows nothing would be known of what one unit moves; a unit is in no more groups than it has rows. The column is no "
        "feature.",
        "unit person\nat most 3 rows a person",
        "unit person identified by id, neighbours add-remove\nat most 3 rows a person",
    ),
}
