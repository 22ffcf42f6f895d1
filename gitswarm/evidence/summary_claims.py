"""Reads what a summary claims, clause by clause, with patterns: that tests pass, what was done and to which files,
what is covered.

A clause that is negated, doubtful, or about the future, the past or somebody else claims nothing. What is not
recognised claims nothing either: an honest agent is not to be suspected because of its style, and whoever only hints
has not claimed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from gitswarm.evidence.declarations import is_test_file
from gitswarm.evidence.verdict import Claims, CoverageClaim, PassClaim, ProgressClaim
from gitswarm.records.envelope import Handoff
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import shorten, words

_SUMMARY_CHARS = 20_000
_CLAUSE_CHARS = 600
_QUOTED_COLUMNS = 160
_SENTENCE_END = lazy_re(r"(?<=[.!?])(?=\s)|\n\s*\n|\n(?=\s*(?:[-*•]|[0-9]{1,3}[.)])\s)|;")
_CLAUSE_END = lazy_re(
    r",(?=\s)|\s[-–—]{1,2}\s|—|\(|\)|:(?=\s)"
    r"|(?<!\ball)\s(?=(?:but|however|though|although|while|whereas|because|since)\b)"
    r"|\sand\s(?=(?:all|the|every|[0-9]+)\s(?:\w+\s){0,3}(?:tests?|suites?|coverage)\b)",
    re.IGNORECASE,
)


def _any_case(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(lazy_re(pattern, re.IGNORECASE) for pattern in patterns)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    return next((match for pattern in patterns if (match := pattern.search(text))), None)


_FAIL = r"(?:fail|fails|failed|failing|failures?|broken|red)"
_NEGATED = lazy_re(
    rf"\b(?:not|no|never|none|nothing|neither|nor|cannot|without|unable|{_FAIL}|un\w+ed|hardly|barely)\b|n['’]t\b",
    re.IGNORECASE,
)
_TAKEN_BACK = lazy_re(rf"\b(?:{_FAIL}|no longer|not yet|not all|not run)\b", re.IGNORECASE)
_NONE_FAILED = lazy_re(
    r"\b(?:no|zero|0|without(?: any)?|none)(?: (?:tests?|more|further|other|new|test)){0,2} "
    r"(?:fail(?:s|ed|ing|ures?)?)\b|\bnothing (?:fails|failed)\b",
    re.IGNORECASE,
)
_DOUBTFUL = lazy_re(
    r"\b(?:will|would|should|shall|must|may|might|could|can|if|once|until|unless|when|whether|expect\w*|ought|needs?|"
    r"needed|requires?|required|going to|plan|plans|planned|todo|to do|to be|"
    r"(?<!continue )(?<!continues )to pass|to get|next|later|pending|"
    r"remains? to|so that|in order to|makes?|making|ensures?|get|getting|hop(?:e|es|ing)|wants?|aims?|goal|target|"
    r"threshold|minimum|probably|likely|presumably|apparently|almost|nearly|mostly|most|some|few|several|half|many|partly|"
    r"verify that|check that|before|previously|formerly|earlier|used to|had been|wait\w*)\b|\?",
    re.IGNORECASE,
)
_EXCEPT = lazy_re(r"\b(?:except|apart from|all but|other than)\b", re.IGNORECASE)
_UNDONE = lazy_re(r"\W{0,3}(?:no|nothing|none|neither)\b", re.IGNORECASE)

_TESTS = r"(?:tests?|test[ -]suites?|suites?|specs|pytest|jest|vitest|cargo test|go test|ci|test runs?)"
_SUCCEED = r"(?:pass|passes|passed|passing|succeed|succeeds|succeeded)"
_WORDS = r"(?: (?!that\b|which\b|who\b)[\w/.-]+)"
_ABOUT_TESTS = lazy_re(rf"\b{_TESTS}\b|\b[0-9]{{1,7}} {_SUCCEED}\b", re.IGNORECASE)
_NO_OBJECT = r"(?! (?:an?|the|its|it|through|arguments?|to)\b)"  # not of a test that passes something to somebody
_IS = r"(?:is|are|stays?|remains?|runs?|ran|were|was|all)"
_FINE = r"(?:green|successful|successfully|clean|cleanly|ok|fine)"
_PASSES = _any_case(
    rf"\b(?:{_TESTS}{_WORDS}{{0,6}}?|checks(?: all| now)?) {_SUCCEED}\b{_NO_OBJECT}",
    rf"\b(?:{_TESTS}|checks){_WORDS}{{0,4}}? {_IS}(?: \w+){{0,2}}? {_FINE}\b",
    rf"\b(?:pass|passes|passed|passing|green) (?:(?!to\b|into\b|an?\b|from\b|for\b)\w+ ){{0,3}}?{_TESTS}\b",
    rf"\b{_TESTS} green\b",
    r"\b100 ?% pass(?:ing)? rate\b",
    r"\b[0-9]{1,7}(?:/[0-9]{1,7})? (?:passed|passing|pass|green)\b",
    r"^\W*(?:all|everything)(?: \w+){0,2} (?:green|passes|passed|passing)\b",
)
_BARE = lazy_re(r"\W*(?:all )?(?:pass|passes|passed|passing|green|ok)\W*", re.IGNORECASE)  # as in "Tests: PASS"
_PASSED_NUMBERS = _any_case(
    rf"\b([0-9]{{1,7}})(?: ?(?:/|out of|of) ?(?:the )?([0-9]{{1,7}}))?(?: [\w-]+){{0,3}}? (?:{_SUCCEED}|green)\b",
    rf"\b(?:passes|passed|pass) (?:all )?([0-9]{{1,7}})()(?: \w+){{0,2}} {_TESTS}\b",
)
_ADMITTED = lazy_re(
    rf"\b(?!0 )[0-9]{{1,7}} (?:[\w-]+ ){{0,3}}?{_FAIL}\b"
    rf"|\b(?:{_TESTS}|test_\w+|one|two|three|some|several|few|rest|others?|which|it|they)"
    rf"(?: [\w-]+){{0,3}}? {_FAIL}\b"
    rf"|\b(?:not|n['’]t)(?: \w+){{0,2}} (?:pass|green)\b|^(?:(?:but|and|though|while|which) )?{_FAIL}\b",
    re.IGNORECASE,
)

_DONE = (
    r"(?:implemented|fixed|added|created|wrote|rewrote|written|rewritten|updated|refactored|removed|deleted|renamed|"
    r"replaced|changed|modified|introduced|moved|extended|corrected|resolved|patched|repaired|migrated|converted|"
    r"completed|simplified|extracted|adjusted|improved|hardened)"
)
_PROGRESS = lazy_re(
    rf"^\W*(?:(?:now|then|and|have|has|also|(?!newly\b|recently\b)\w+ly) ){{0,3}}{_DONE}\b"
    rf"|^(?!(?:the|an?|all|any|each|these|those|of|for|with|newly|recently|your|its)\b)\S+ {_DONE}\b"
    rf"|\b(?:i|we)(?:['’]ve| have)?(?: \w+ly| now| also| just| then)? {_DONE}\b"
    rf"|\b(?:and|then|also) {_DONE}\b"
    rf"|\b(?:has|have) (?:now |all |both )?been (?:\w+ly )?{_DONE}\b"
    rf"|\b(?:is|are) now (?:\w+ly )?{_DONE}\b",
    re.IGNORECASE,
)
_ADJECTIVE = lazy_re(
    r"(?: \w+){1,2} (?:is|are|looks?|covers?|checks?|exercises?|seems?|reads?|should)\b", re.IGNORECASE
)
_BY_OTHERS = lazy_re(
    rf"\b{_DONE} by\b|\b(?:previous|last|earlier|prior) (?:step|iteration|commit|run|agent)\b", re.IGNORECASE
)
_REPAIRED = lazy_re(rf"\b(?:{_DONE}|now|green)\b", re.IGNORECASE)

_PERCENT = r"([0-9]{1,3}(?:\.[0-9]{1,4})?) ?(?:%|per ?cent)"
_COVERAGE = _any_case(
    rf"\bcoverage\b[^0-9%]{{0,40}}from [0-9.]{{1,6}} ?%? to {_PERCENT}",
    rf"\b{_PERCENT}(?: (?:line|lines|test|tests|code|statement|total|overall|branch|of)){{0,2}} coverage\b",
    rf"\bcoverage\b[^0-9%]{{0,40}}?{_PERCENT}",
)
_NOT_TOTAL = lazy_re(r"\b(?:new|changed|module|class|diff|patch|function|mutation|each|file)\b", re.IGNORECASE)

_URL = lazy_re(r"\b[a-z][a-z0-9+.-]{1,20}://\S+", re.IGNORECASE)
_WORD = lazy_re(r"[^\s`'\"“”‘’<>|,;:()\[\]{}*?!=]+")
_EXTENSION = lazy_re(
    r"c|cc|cfg|cjs|clj|cpp|cs|css|csv|cts|dart|env|erl|exs?|feature|go|gradle|graphql|hp?p?|hs|html|ini|ipynb|java|jl|"
    r"jsonl?|jsx?|kt|lock|lua|md|mjs|mts?|ml|php|p[lm]|proto|ps1|py[ix]?|r|rb|rs|rst|sass|scala|scss|sh|sql|svelte|svg|"
    r"swift|tcl|tf|toml|tsx?|txt|vue|xml|ya?ml|zig",
    re.IGNORECASE,
)
_WHOLE_NAMES = frozenset({"Makefile", "Dockerfile", "Justfile", "Rakefile", "Gemfile", "Procfile", "CMakeLists.txt"})
_PRODUCTS = frozenset({"node.js", "next.js", "vue.js", "nuxt.js", "react.js", "express.js", "three.js", "d3.js"})
_FILES = 200

# Of "added tests for a.py", "like b.py" and "the parser reads c.py from d.py" none says that the file was changed.
_NOT_CHANGED_AFTER = words("""
    for of against from like using with covering per on by via than after see through reads calls imports under
""")
_LIKE = words("similar according compared analogous equivalent identical next due")
"""With a `to` behind them."""
_ABOUT = lazy_re(r"\b(?:tests?|cases?|docs?|documentation|coverage) (?:for|of)\b", re.IGNORECASE)
_TAKES_AWAY = lazy_re(r"\b(?:removed|deleted|extracted|moved)\b", re.IGNORECASE)


def read_claims(handoff: Handoff) -> Claims:
    """The claims of a handoff. Only the first 20,000 characters of a summary are read; nothing raises."""
    summary = handoff.summary[:_SUMMARY_CHARS].replace("`", "").replace("**", "")
    passes: list[PassClaim] = []
    progress: list[ProgressClaim] = []
    coverage: list[CoverageClaim] = []
    sentences = [(sentence, _clauses(sentence)) for sentence in _SENTENCE_END.split(summary)]
    last_admission = max(
        (at for at, (_, clauses) in enumerate(sentences) if any(map(_still_fails, clauses))), default=-1
    )
    for at, (sentence, clauses) in enumerate(sentences):
        admits = at < last_admission or any(map(_admits, clauses))
        passes.extend(claim for clause in clauses for claim in _passes(clause, sentence, admits=admits))
        progress.extend(_progress(clauses))
        coverage.extend(claim for clause in clauses for claim in _coverage(clause))
    return Claims(
        status=handoff.status,
        confidence=handoff.confidence,
        artifacts=handoff.artifacts,
        file_changes=handoff.file_changes,
        passes=tuple(passes),
        progress=tuple(progress),
        coverage=tuple(coverage),
    )


def _clauses(sentence: str) -> list[str]:
    parts = (" ".join(part.split())[:_CLAUSE_CHARS] for part in _CLAUSE_END.split(sentence))
    return [part for part in parts if part]


def _admits(clause: str) -> bool:
    return bool(_ADMITTED.search(_NONE_FAILED.sub("", clause))) and not _DOUBTFUL.search(clause)


def _still_fails(clause: str) -> bool:
    """Whether a clause takes back claims before it; one about failures that were repaired does not."""
    return _admits(clause) and not _REPAIRED.search(clause)


def _passes(clause: str, sentence: str, *, admits: bool) -> Iterator[PassClaim]:
    stated = _NONE_FAILED.sub("", clause)
    found = _first(_PASSES, stated)
    positive = found and not _NEGATED.search(stated[: found.end()]) and not _TAKEN_BACK.search(stated)
    none_failed = stated != clause and not _NEGATED.search(stated)
    of_tests = (none_failed or _BARE.fullmatch(clause)) and _ABOUT_TESTS.search(sentence)
    if _DOUBTFUL.search(clause) or _EXCEPT.search(clause) or not (positive or of_tests):
        return
    passed, planned = _numbers(stated)
    yield PassClaim(_quoted(clause), passed, all_green=planned in {None, passed} and not admits)


def _numbers(clause: str) -> tuple[int | None, int | None]:
    """How many tests pass by a claim, and of how many."""
    found = _first(_PASSED_NUMBERS, clause)
    if found is None:
        return None, None
    return int(found[1]), int(found[2]) if found[2] else None


def _progress(clauses: list[str]) -> Iterator[ProgressClaim]:
    """A clause of nothing but file names continues the list before it, or is the heading of what follows."""
    claim: ProgressClaim | None = None
    heading: tuple[str, ...] = ()
    for clause in clauses:
        if claim is not None and claim.files and is_list_of_files(clause):
            claim = ProgressClaim(claim.text, claim.files + named_files(clause))
            continue
        if claim is not None:
            yield claim
        claim = ProgressClaim(_quoted(clause), heading + objects_of_change(clause)) if _is_progress(clause) else None
        heading = named_files(clause) if is_list_of_files(clause) else ()
    if claim is not None:
        yield claim


def _is_progress(clause: str) -> bool:
    found = _PROGRESS.search(clause)
    if found is None or _BY_OTHERS.search(clause):
        return False
    stated, follows = clause[: found.end()], clause[found.end() :]
    if _UNDONE.match(follows) or _ADJECTIVE.match(follows):
        return False
    return not _NEGATED.search(stated) and not _DOUBTFUL.search(stated)


def _coverage(clause: str) -> Iterator[CoverageClaim]:
    found = _first(_COVERAGE, clause)
    if found is None or _NEGATED.search(clause[: found.end()]) or _DOUBTFUL.search(clause):
        return
    if not _NOT_TOTAL.search(clause) and not named_files(clause) and float(found[1]) <= 100:
        yield CoverageClaim(_quoted(clause), float(found[1]))


def _quoted(clause: str) -> str:
    return shorten(clause, _QUOTED_COLUMNS)


def named_files(text: str) -> tuple[str, ...]:
    """Names with a known extension, and well-known names without one, in order of appearance; at most 200.

    Not products (Node.js), addresses, calls (`log.md()`) and patterns (`src/**`).
    """
    return tuple(dict.fromkeys(name for name, _ in islice(_mentions(text), _FILES)))


def objects_of_change(clause: str) -> tuple[str, ...]:
    """The files that a clause says were changed, not those that it mentions for another reason."""
    found, is_skipped = [], False
    about, takes_away = _ABOUT.search(clause), _TAKES_AWAY.search(clause)
    for name, before in islice(_mentions(clause), _FILES):
        if before not in {"and", "or", ""}:
            is_skipped = before in _NOT_CHANGED_AFTER and not (before == "from" and takes_away)
        if not is_skipped and (about is None or is_test_file(name)):
            found.append(name)
    return tuple(dict.fromkeys(found))


def is_list_of_files(clause: str) -> bool:
    words = [word for word in clause.split() if word.lower() not in {"and", "plus", "also", "in"}]
    return bool(words) and len(words) == sum(1 for _ in _mentions(clause))


def _mentions(text: str) -> Iterator[tuple[str, str]]:
    """File names with the word before each, in small letters."""
    before = ""
    for match in _WORD.finditer(_URL.sub(" ", text)):
        word, following = match[0].rstrip(".…"), match.string[match.end() : match.end() + 1]
        if _is_file(word) and following not in {"*", "(", "[", "{"}:
            yield word, before
        before = "like" if word.lower() == "to" and before in _LIKE else word.lower()


def _is_file(name: str) -> bool:
    last = name.rpartition("/")[2]
    stem, dot, extension = last.rpartition(".")
    if name in _WHOLE_NAMES or last in _WHOLE_NAMES:
        return True
    if not dot or not _EXTENSION.fullmatch(extension) or last.lower() in _PRODUCTS:
        return False
    return bool(stem) and not stem.replace(".", "").isdigit()
