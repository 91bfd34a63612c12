"""A SQL lexer compatible with Spark's, and a splitter of scripts at semicolons, for client and gateway.

A gateway must split scripts and recognize statements without Spark. Users send SQL of many megabytes, such as
an INSERT with a million rows. A tokenizer in Python is too slow for this, and naive splitting breaks on
quotes, comments and BEGIN … END blocks. So three levels share one lexical grammar. `tokenize` yields tokens
lazily, for callers that stop after the first words. `_end_of_plain` skips to the next semicolon or bracket
without creating tokens, with a single regular expression that cannot backtrack (atomic groups).
`check_nesting` counts nesting in the same way, because Spark's parser overflows its stack or fills the heap
on deeply nested input before it reports an error. Only statements that may contain blocks are tokenized
completely.

Invariant: for any text that Spark accepts, tokens, ends of statements and levels are those of Spark's lexer.
An unclosed quote or comment raises SqlSyntaxError with its position. Positions always refer to the complete
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, pairwise

from mt_core.base.identifiers import unquote
from mt_core.errors import SqlSyntaxError


class TokenKind(StrEnum):
    """The kind of a token.

    WORD is a keyword or an unquoted identifier; IDENTIFIER is an identifier in backquotes.
    """

    WORD = "WORD"
    IDENTIFIER = "IDENTIFIER"
    STRING = "STRING"
    NUMBER = "NUMBER"
    SYMBOL = "SYMBOL"
    COMMENT = "COMMENT"
    HINT = "HINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of SQL text: `text` is `sql[start:end]`; `line` and `column` count from 1."""

    kind: TokenKind
    text: str
    start: int
    end: int
    line: int
    column: int

    @property
    def keyword(self) -> str:
        """The word in upper case, or "" for any other kind of token."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def value(self) -> str:
        """The text of the token.

        Identifiers and strings lose their quotes, and their escapes are resolved as in Spark.
        """
        if self.kind is TokenKind.IDENTIFIER:
            return unquote(self.text)
        return _unquoted(self.text) if self.kind is TokenKind.STRING else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script, without its semicolon and surrounding comments.

    `start`, `line` and `column` are its position in the script. `terminated` is True if a semicolon ended it.
    """

    text: str
    start: int
    line: int
    column: int
    terminated: bool


# ---------------------------------------------------------------------------------------------------- cutting

# Atomic groups, because Python before 3.11.5 matches possessive quantifiers of groups incorrectly.
_TOKEN = re.compile(
    r"""
      (?P<COMMENT> --(?>(?:\\\n|[^\r\n])*) )
    | (?P<HINT> /\*\+.*?\*/ )
    | (?P<STRING> [rR]'[^']*+' | [rR]"[^"]*+" | '(?>(?:[^'\\]++|\\.|'')*)' | "(?>(?:[^"\\]++|\\.|"")*)"
                  | (?P<tag>\$[A-Za-z]*\$).*?(?P=tag) )
    | (?P<IDENTIFIER> `(?>(?:[^`]++|``)*)` )
    | (?P<NUMBER> (?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?:[bB][dD]|[lLsSyYfFdD])?(?!\w) )
    | (?P<OPEN> /\* | [rR]?['"] | ` | \$[A-Za-z]*\$ )
    | (?P<WORD> \w++ )
    | (?P<SYMBOL> \S )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_NAMES_OF_OPEN = {"/*": "comment", "`": "quoted identifier"}


class Lines:
    """Maps the offsets in a string to lines and columns; fastest for increasing offsets."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset, self._line, self._line_start = 0, 1, 0

    def locate(self, offset: int) -> tuple[int, int]:
        """Return the line and column of *offset*, both counted from 1."""
        if offset < self._offset:
            self._offset, self._line, self._line_start = 0, 1, 0
        if newlines := self._text.count("\n", self._offset, offset):
            self._line += newlines
            self._line_start = self._text.rindex("\n", self._offset, offset) + 1
        self._offset = offset
        return self._line, offset - self._line_start + 1


def tokenize(text: str, start: int = 0, lines: Lines | None = None) -> Iterator[Token]:
    """Yield the tokens of *text* from offset *start* lazily, including comments.

    Raises SqlSyntaxError at an unclosed quote or comment.
    """
    lines, offset = lines or Lines(text), start
    while match := _TOKEN.search(text, offset):
        kind, start, end = str(match.lastgroup), match.start(), match.end()
        if kind == "OPEN":
            kind, end = "COMMENT", _end_of_open(text, start, lines)
        line, column = lines.locate(start)
        yield Token(
            kind=TokenKind(kind), text=text[start:end], start=start, end=end, line=line, column=column
        )
        offset = end


def significant(text: str, start: int = 0, lines: Lines | None = None) -> Iterator[Token]:
    """Yield the tokens of *text* except comments."""
    return (token for token in tokenize(text, start, lines) if token.kind is not TokenKind.COMMENT)


def _end_of_open(text: str, start: int, lines: Lines) -> int:
    """Return the end of the comment that opens at *start*; comments may be nested.

    Raises SqlSyntaxError if the comment is not closed, or if a quote or hint opens at *start*.
    """
    opening = _TOKEN.match(text, start)
    mark = opening.group() if opening else ""
    if mark == "/*" and not text.startswith("/*+", start):
        depth = 0
        for edge in _COMMENT_EDGE.finditer(text, start):
            depth += 1 if edge.group() == "/*" else -1
            if depth == 0:
                return edge.end()
    line, column = lines.locate(start)
    name = "hint" if text.startswith("/*+", start) else _NAMES_OF_OPEN.get(mark, "string")
    closing = "*/" if mark == "/*" else mark.lstrip("rR")
    raise SqlSyntaxError(
        f'Encountered "<EOF>": unterminated {name}; the {mark} here has no closing {closing}',
        line=line,
        column=column,
    )


# ---------------------------------------------------------------------------------------------------- strings

_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\([0-3][0-7]{2})|\\(.)|(''|\"\")", re.DOTALL)
_NAMED_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}


def _unquoted(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]
    if text[0] == "$":
        tag = text.index("$", 1) + 1
        return text[tag:-tag]
    quote = text[0]

    def meaning(match: re.Match[str]) -> str:
        four, eight, octal, letter, doubled = match.groups()
        if doubled:
            return quote if doubled[0] == quote else str(doubled)
        if letter:
            return _NAMED_ESCAPES.get(letter, letter)
        code = int(octal, 8) if octal else int(four or eight, 16)
        return chr(code) if code <= 0x10FFFF else match.group()

    return _ESCAPE.sub(meaning, text[1:-1])


# -------------------------------------------------------------------------------------------------- splitting

_TYPES = {"ARRAY", "MAP", "STRUCT"}
_INNER_BLOCKS = {"IF", "LOOP", "WHILE", "REPEAT", "FOR"}
_NO_KEYWORD_AFTER = {".", "AS"}
# Tokens that precede an operand or a name: an END after them is a column, table or alias named END.
_OPERAND_AFTER = re.compile(
    r"(?i: AND | AS | BETWEEN | BY | CASE | COLLATE | DISTINCT | DIV | ELSE | ESCAPE | FROM | "
    r"HAVING | I?LIKE | IN | JOIN | NOT "
    r"| ON | OR | OVER | REGEXP | RLIKE | SELECT | THEN | WHEN | WHERE )",
    re.VERBOSE,
)
_OPERAND_AFTER_SYMBOLS = frozenset("!%&(*+,-./:<=>[^|~")


def _expects_operand(before: str) -> bool:
    """Return whether the token *before* must be followed by an operand or a name; > counts as an operator."""
    is_symbol = before[-1:] in _OPERAND_AFTER_SYMBOLS and not before[0].isdigit()
    return is_symbol or _OPERAND_AFTER.fullmatch(before) is not None


def split_statements(text: str) -> list[Statement]:
    """Split *text* into statements at semicolons outside quotes, comments and BEGIN … END blocks.

    Raises SqlSyntaxError with `Encountered "<EOF>"` at an unclosed quote, comment or block. A statement
    without blocks is not tokenized: it takes only a few matches of regular expressions, whatever its length.
    """
    statements: list[Statement] = []
    lines, offset = Lines(text), 0
    while (first := next(significant(text, offset, lines), None)) is not None:
        end, stop = first.start, first.start
        if first.text != ";":
            end_of = _end_of_blocks if _MAY_HAVE_BLOCKS.match(text, first.start) else _end_of_plain
            end, stop = end_of(text, first.start, lines)
            statements.append(
                Statement(
                    text=text[first.start : end],
                    start=first.start,
                    line=first.line,
                    column=first.column,
                    terminated=stop < len(text),
                )
            )
        offset = stop + 1
    return statements


_INSIDE_COMMENT = r"(?>(?: [^*/]++ | \*(?!/) | /(?!\*(?!\+)) )*)"
_GAP = rf"""
    (?>(?: \s++ | --(?>(?:\\\n|[^\r\n])*) | /\*(?!\+) {_INSIDE_COMMENT} \*/ )*)
"""
# Text that is not a gap. r and R are separate because a string can begin with them; nested comments and $tag$
# strings are left out.
_PLAIN = r"""
      [^\s'"`$;/\-rR{stops}]++ | -(?!-) | /(?!\*) | \$(?![A-Za-z]*\$)
    | (?<!\w)[rR](?: '[^']*+' | "[^"]*+" | (?!['"])) | (?<=\w)[rR]
    | '(?>(?:[^'\\]++|\\.|'')*)' | "(?>(?:[^"\\]++|\\.|"")*)" | `(?>(?:[^`]++|``)*)` | /\*\+.*?\*/
"""


def _outline(stops: str) -> re.Pattern[str]:
    """Return a pattern for the text before a semicolon or one of *stops*, without the gap at its end."""
    return re.compile(
        f"(?>(?: {_GAP} (?>(?: {_PLAIN.replace('{stops}', stops)} )+) )*)", re.VERBOSE | re.DOTALL
    )


_UP_TO_SEMICOLON, _UP_TO_BRACKET = _outline(""), _outline("()")
_GAPS = re.compile(_GAP, re.VERBOSE)
_MAY_HAVE_BLOCKS = re.compile(
    rf"(?: BEGIN | EXECUTE | EXPLAIN | COMPILE | (?: `[^`]*+` | [^\s;:]++ ) {_GAP} : {_GAP} BEGIN )(?!\w)",
    re.VERBOSE | re.IGNORECASE,
)


def end_of_statement(text: str, start: int) -> tuple[int, int]:
    """Return where a statement without blocks ends, and the offset of its semicolon or the text's end."""
    return _end_of_plain(text, start, Lines(text))


def _end_of_plain(
    text: str, start: int, lines: Lines, pattern: re.Pattern[str] = _UP_TO_SEMICOLON
) -> tuple[int, int]:
    end = stop = start
    while True:
        outline = pattern.match(text, stop)
        if outline and outline.end() > stop:
            end = stop = outline.end()
        gap = _GAPS.match(text, stop)
        stop = gap.end() if gap else stop
        if stop == len(text) or text[stop] in ";()":
            return end, stop
        quoted = _TOKEN.match(text, stop)
        if quoted and quoted.lastgroup != "OPEN":
            end = stop = quoted.end()
        else:
            stop = _end_of_open(text, stop, lines)


def skip_brackets(text: str, start: int) -> int:
    """Return the offset after the bracket that closes the one at *start*, or else the end of the text."""
    depth, offset, lines = 1, start + 1, Lines(text)
    while depth:
        _, offset = _end_of_plain(text, offset, lines, _UP_TO_BRACKET)
        if offset == len(text):
            return offset
        depth += {"(": 1, ")": -1}.get(text[offset], 0)
        offset += 1
    return offset


def _end_of_blocks(text: str, start: int, lines: Lines) -> tuple[int, int]:
    """Return what `end_of_statement` returns, for a statement that may have blocks.

    Raises SqlSyntaxError for a block without END.
    """
    before: list[Token] = []
    blocks = _Blocks()
    for token, following in pairwise(chain(significant(text, start, lines), [None])):
        if token is None or (token.text == ";" and not blocks.open):
            return before[-1].end, token.start if token else len(text)
        blocks.read(before, token, following)
        before.append(token)
    if blocks.open:
        opener = blocks.open[-1]
        raise SqlSyntaxError(
            f'Encountered "<EOF>": unterminated block; the {opener.text} here has no END',
            line=opener.line,
            column=opener.column,
        )
    return before[-1].end, len(text)


@dataclass(slots=True)
class _Blocks:
    """The BEGIN and CASE words of a statement that still need an END; empty outside a compound block.

    `brackets` and `types` are the numbers of open brackets and types. `levels` lists, for each word in
    `open`, the number of brackets open at that word: an END inside further brackets does not end it.
    """

    open: list[Token] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    brackets: int = 0
    types: int = 0
    ends_type: bool = False

    def read(self, before: list[Token], token: Token, following: Token | None) -> None:
        word, next_word = token.keyword, following.keyword if following else ""
        if not self.open:
            if word == "BEGIN" and _opens_compound(before, next_word):
                self._add(token)
            return
        if token.kind is TokenKind.SYMBOL:
            self._read_symbol(before[-1], token.text)
        elif (before[-1].keyword or before[-1].text) in _NO_KEYWORD_AFTER:
            pass
        elif word == "END" and next_word not in _INNER_BLOCKS:
            if self.levels[-1] == self.brackets and (self.ends_type or not _expects_operand(before[-1].text)):
                self.open.pop()
                self.levels.pop()
        elif word == "BEGIN" or (word == "CASE" and before[-1].keyword != "END"):
            self._add(token)
        self.ends_type = self.ends_type and token.text == ">"

    def _add(self, token: Token) -> None:
        self.open.append(token)
        self.levels.append(self.brackets)

    def _read_symbol(self, before: Token, symbol: str) -> None:
        if symbol == ";":
            self.brackets = self.types = 0
        elif symbol in "([":
            self.brackets += 1
        elif symbol in ")]":
            self.brackets = max(0, self.brackets - 1)
        elif symbol == "<" and before.keyword in _TYPES:
            self.types += 1
        elif symbol == ">":
            self.ends_type = self.types > 0
            self.types -= self.ends_type


def _opens_compound(before: list[Token], next_word: str) -> bool:
    """Return whether BEGIN opens a block: Spark's `[label:] BEGIN …` or `EXECUTE STATEMENT SET BEGIN …`.

    `BEGIN STATEMENT SET;` is a statement of its own.
    """
    if not before:
        return next_word != "STATEMENT"
    if before[-1].text == ":" and len(before) == 2:
        return True
    words = [token.keyword for token in before]
    return words[0] in {"EXECUTE", "EXPLAIN", "COMPILE"} and words[-2:] == ["STATEMENT", "SET"]


# ---------------------------------------------------------------------------------------------------- nesting

MOST_NESTED = 500
"""The maximum number of levels that a statement may nest.

Most kinds of nesting overflow the stack of Spark's parser at 250 to 1,000 levels. Before that, the time and
the memory of the parser's caches grow faster than the depth: 500 brackets take half a second and 5,000 more
than a minute. 20,000 fill a heap of 2 GB, and the JVM then does nothing but collect garbage. Types need the
most memory, 30 MB at 500 levels. Chains of binary operators, of UNION and of JOIN are flat: their cost is
proportional to their length.
"""
_NEGATED = r"NOT \s++ (?:I?LIKE|R?LIKE|REGEXP|IN|BETWEEN)"
_OPERATOR_NEXT = (
    rf"(?: [=<>,)%|&^*;] | :: | (?:AND|OR|IN|IS|LIKE|BETWEEN|FROM|AS|THEN|ELSE|{_NEGATED})(?!\w) | \Z )"
)
# A CASE expression, as opposed to a column named CASE. Before END it is always the expression, because END
# may be the column that CASE compares.
_CASE = rf"(?i:CASE(?!\w)(?! {_GAP} {_OPERATOR_NEXT} ))"
# A type, as opposed to a column with this name that is compared or shifted.
_TYPE = rf"(?i:ARRAY|MAP|STRUCT) {_GAP} < (?! [<=] | {_GAP} [0-9'] )"
_SIGN = r"(?: (?i:NOT)(?!\w) | -(?!-) | [+~!] )"
# Text that neither opens nor closes a level. Words are matched as a whole, so that no match begins inside
# one.
_FLAT_TOKEN = rf"""
      [^\s\w'"`$/\-+~!()\[\]<>.]++ | '(?>(?:[^'\\]++|\\.|'')*)' | [rR](?: '[^']*+' | "[^"]*+" )
    | [0-9]++\.(?!\w) | [^\WaAcCeEmMnNsS]\w*+ | (?! {_CASE} | {_TYPE} | (?i:END|NOT)(?!\w) ) \w++
    | \. (?>(?: \s*+ \w++ )?) | <
    | "(?>(?:[^"\\]++|\\.|"")*)" | `(?>(?:[^`]++|``)*)` | \$(?![A-Za-z]*\$) | {_SIGN} (?! \s*+ {_SIGN} )
    | (?i:END \s++ (?:IF|LOOP|WHILE|REPEAT|FOR))(?!\w)
    | /(?!\*)
"""
_FLAT_GAP = rf"\s++ | --(?>(?:\\\n|[^\r\n])*) | /\*\+.*?\*/ | /\*(?!\+) {_INSIDE_COMMENT} \*/"
_FLAT = f"{_FLAT_TOKEN} | {_FLAT_GAP}"
_FLAT_GROUP = rf"[(\[] (?>(?: {_FLAT} | > )*) [)\]]"
_FLAT_GROUPS = rf"[(\[] (?>(?: {_FLAT} | > | {_FLAT_GROUP} )*) [)\]]"
_EDGE = rf"""
    (?: (?P<BRACKET> [(\[] ) | (?P<CASE> {_CASE} ) | (?P<TYPE> {_TYPE} ) | (?P<SIGNS> (?: {_SIGN} \s*+ )+ )
      | (?P<CLOSING> [)\]>] | (?i:END(?!\w)(?>(?: \s++ CASE(?!\w) )?)) ) )?
"""
_LEVEL = re.compile(f"(?>(?: {_FLAT} )*) {_EDGE}", re.VERBOSE | re.DOTALL)
# Skips text that nests at most two levels, such as the rows of VALUES, in a single match.
_LEVEL_OVER_GROUPS = re.compile(f"(?>(?: {_FLAT} | {_FLAT_GROUPS} )*) {_EDGE}", re.VERBOSE | re.DOTALL)
# The text that either pattern matches before the edge; the group is its last token.
_LAST_TOKEN = re.compile(
    f"(?>(?: ( {_FLAT_TOKEN} | {_FLAT_GROUPS} ) | {_FLAT_GAP} )*)", re.VERBOSE | re.DOTALL
)
_CLOSED = {")": "BRACKET", "]": "BRACKET", ">": "TYPE"}
# The token to pass to `_expects_operand` for the place after each kind of edge.
_OPENING = {"BRACKET": "(", "CASE": "CASE", "TYPE": "<", "SIGNS": "-"}
_EACH_SIGN = re.compile(_SIGN, re.VERBOSE)


def check_nesting(text: str, most: int = MOST_NESTED) -> None:
    """Raise SqlSyntaxError if *text*, one statement, nests more than *most* levels.

    Brackets, CASE, types, signs and blocks each open a level. An unclosed quote may also raise
    SqlSyntaxError. If *text* contains no more than *most* of these symbols, they are only counted; a string
    with more of them is scanned once.
    """
    capitals = text.upper()
    if capitals.count("BEGIN") > most:
        _check_blocks(text, most)
    if sum(map(capitals.count, ("(", "[", "<", "CASE", "NOT", "-", "+", "~", "!"))) > most:
        deepest, first_too_deep = _nesting(text, most)
        if deepest > most:
            raise _too_deep(deepest, most, *Lines(text).locate(first_too_deep))


def _check_blocks(text: str, most: int) -> None:
    before: list[Token] = []
    blocks = _Blocks()
    for token, following in pairwise(chain(significant(text), [None])):
        if token is None or (not before and not _MAY_HAVE_BLOCKS.match(text, token.start)):
            return
        blocks.read(before, token, following)
        if len(blocks.open) > most:
            raise _too_deep(len(blocks.open), most, token.line, token.column)
        before.append(token)


def _too_deep(depth: int, most: int, line: int, column: int) -> SqlSyntaxError:
    return SqlSyntaxError(
        f"SQL parse failed. The statement nests {depth} levels of brackets, blocks, CASE, types or signs; "
        f"{most} are the most. Name the inner parts in WITH … AS (…) or in views, "
        "and write a chain of CASE … ELSE CASE as one CASE with several WHEN.",
        line=line,
        column=column,
        depth=depth,
        limit=most,
    )


def _nesting(text: str, most: int) -> tuple[int, int]:
    """Return how many levels *text* nests and the offset of the first level beyond *most*.

    A result below the limit may be too low by two, because groups of two levels are skipped in one match.
    """
    lines, offset, before = Lines(text), 0, ""
    levels = _Levels()
    deepest = first_too_deep = 0
    while offset < len(text):
        outer = levels.count()
        # A group may contain the > that ends a type which was opened before the group.
        over_groups = outer <= most - 2 and not levels.opened["TYPE"]
        level = (_LEVEL_OVER_GROUPS if over_groups else _LEVEL).match(text, offset)
        kind = level.lastgroup if level else None
        if level is None or kind is None:
            start = level.end() if level else offset
            before = _last_token(text, offset, start, before) if text.startswith("/*", start) else "'"
            offset = _end_of_quoted(text, start, lines)
            continue
        if kind == "CLOSING":
            closed = _CLOSED.get(level[kind], "CASE")
            if closed == "CASE":
                before = _last_token(text, offset, level.start(kind), before)
            before, offset = levels.close(closed, before), level.end()
            continue
        offset = level.end()
        if kind in levels.opened:
            levels.add(kind)
        before = _OPENING[kind]
        depth = outer + (len(_EACH_SIGN.findall(level[kind])) if kind == "SIGNS" else 1)
        if deepest <= most < depth:
            first_too_deep = level.start(kind)
        deepest = max(deepest, depth)
    return deepest, first_too_deep


def _last_token(text: str, start: int, end: int, before: str) -> str:
    """Return the last token of the flat text between *start* and *end*, or *before* if there is none."""
    match = _LAST_TOKEN.match(text, start, end)
    return (match[1] if match else None) or before


class _Levels:
    """The levels open at a position in SQL; each CASE belongs to the brackets around it."""

    def __init__(self) -> None:
        self.opened = {"BRACKET": 0, "CASE": 0, "TYPE": 0}
        self._cases = [0]

    def count(self) -> int:
        return sum(self.opened.values())

    def add(self, kind: str) -> None:
        self.opened[kind] += 1
        if kind == "BRACKET":
            self._cases.append(0)
        elif kind == "CASE":
            self._cases[-1] += 1

    def close(self, kind: str, before: str) -> str:
        """Close a level, unless the token *before* shows that none ends here; return the new *before*."""
        if kind == "CASE":
            if self._cases[-1] and not _expects_operand(before):
                self._cases[-1] -= 1
                self.opened[kind] -= 1
            return "END"
        if not self.opened[kind]:
            return ">" if kind == "TYPE" else ")"
        self.opened[kind] -= 1
        if kind == "BRACKET":
            self.opened["CASE"] -= self._cases.pop()
        return ")"


def _end_of_quoted(text: str, start: int, lines: Lines) -> int:
    """Return the end of the token at *start*, which the pattern of a level cannot match.

    Raises SqlSyntaxError if the token is not closed.
    """
    token = _TOKEN.match(text, start)
    if token is None:
        return len(text)
    return token.end() if token.lastgroup != "OPEN" else _end_of_open(text, start, lines)
