"""Which session a message belongs to: a piece of the statement that indexes it, the same on both databases."""

# Six hours of silence begin a new session.
SESSION_GAP_MS = 6 * 60 * 60 * 1000

# Joined to one row of the new message's values: the indexed message before it, and whether its session goes on.
BEFORE = f"""
    LEFT JOIN (
        SELECT session_seq, session_mark,
               CASE WHEN CAST(:mark AS text) IS NULL THEN abs(CAST(:said_at AS bigint) - said_at) < {SESSION_GAP_MS}
                    ELSE coalesce(session_mark = CAST(:mark AS text), FALSE) END AS goes_on
        FROM search_rows
        WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND resource_id = :resource_id
          AND thread_uid = :thread_uid AND seq < CAST(:seq AS bigint)
        ORDER BY seq DESC, chunk DESC
        LIMIT 1
    ) AS earlier ON TRUE
"""  # noqa: S608 - a constant
SESSION_SEQ = "CASE WHEN earlier.goes_on THEN earlier.session_seq ELSE CAST(:seq AS bigint) END"
SESSION_MARK = "coalesce(CAST(:mark AS text), CASE WHEN earlier.goes_on THEN earlier.session_mark END)"

COLUMNS = (
    "tenant_id, agent_id, resource_id, thread_uid, seq, chunk, text_version, role, speaker, said_at, chars,"
    " session_seq, session_mark, asks, empty, content_words"
)
VALUES = (
    "CAST(:tenant_id AS text), CAST(:agent_id AS text), CAST(:resource_id AS text), CAST(:thread_uid AS text),"
    " CAST(:seq AS bigint), CAST(:chunk AS integer), CAST(:text_version AS integer), CAST(:role AS text),"
    f" CAST(:speaker AS text), CAST(:said_at AS bigint), CAST(:chars AS integer), {SESSION_SEQ}, {SESSION_MARK},"
    " CAST(:asks AS integer), CAST(:empty AS integer), CAST(:content_words AS integer)"
)
