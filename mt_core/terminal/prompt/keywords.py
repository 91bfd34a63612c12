"""The keywords that completion and syntax colours know without asking the gateway."""

from __future__ import annotations

from mt_core.base.tokens import TokenKind, tokenize
from mt_core.errors import SqlSyntaxError

_WORDS = """
    ADD ALL ALTER AND ANTI ARCHIVE AS ASC BEGIN BETWEEN BY CASCADE CASE CAST CATALOG CATALOGS COLUMN COLUMNS
    COMMENT COMPILE COMPUTE CREATE CROSS CUBE CURRENT DATABASE DATABASES DELETE DESC DESCRIBE DETERMINISTIC
    DISTINCT DROP ELSE END ESCAPE EXCEPT EXECUTE EXISTS EXPLAIN EXTENDED FALSE FILE FOR FRESHNESS FROM FULL
    FUNCTION FUNCTIONS GROUP GROUPING HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JAR JARS JAVA
    JOB JOBS JOIN LANGUAGE LATE LATERAL LEFT LIKE LIMIT LINEAGE MATCHED MATERIALIZED MERGE MODELS MODULES
    NATURAL NOT NULL OF OFFSET ON OR ORDER OUTER OVER OVERWRITE PARTITION PARTITIONED PARTITIONS PIVOT PLAN
    PRIMARY PROCEDURES QUALIFY REFRESH REFRESHES REFRESH_MODE RENAME REPLACE RESET RESTRICT RESUME RETURN
    RETURNS RIGHT ROLLUP ROWS SAMPLE SAVEPOINT SELECT SEMI SET SETS SHOW STATEMENT STOP SUSPEND TABLE TABLES
    TBLPROPERTIES TEMPORARY THEN TO TRUE TRUNCATE UNION UNPIVOT UPDATE USE USER USING VALUES VERIFY VIEW VIEWS
    WATERMARK WHEN WHERE WINDOW WITH
"""
KEYWORDS = frozenset(_WORDS.split())
# These words are followed by a name, which only the gateway can complete.
_BEFORE_NAME = frozenset(
    {"FROM", "JOIN", "INTO", "TABLE", "VIEW", "UPDATE", "USE", "IN", "DESCRIBE", "DESC", "."}
)


def keywords_after(before: str, begun: str) -> list[str]:
    """Return the keywords that complete *begun* after *before*.

    There are none if a name is expected, or in an open quote or comment.
    """
    if not begun.isalpha():
        return []
    try:
        last = None
        for token in tokenize(before):
            last = token
    except SqlSyntaxError:
        return []
    if last is not None:
        if last.kind is TokenKind.COMMENT and last.text.startswith("--") and "\n" not in before[last.end :]:
            return []
        if (last.keyword or last.text) in _BEFORE_NAME:
            return []
    return sorted(word for word in KEYWORDS if word.startswith(begun.upper()) and word != begun.upper())
