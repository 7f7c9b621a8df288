-- As before, with what has a meaning in a query of words taken as it is written: a word cannot ask beyond its scope.
CREATE OR REPLACE FUNCTION memstrata_postings(words TEXT[], scope TEXT, most BIGINT)
RETURNS TABLE (word TEXT, row_ids BYTEA)
LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $body$
#variable_conflict use_column
BEGIN
    IF ($2 ~ $pattern$^':[0-9]+'( & !':[0-9]+')?$$pattern$
        AND substr(split_part($2, '''', 2), 2)
            = ANY (string_to_array(current_setting('memstrata.tokens', true), ' '))) IS NOT TRUE
    THEN
        RETURN QUERY SELECT asked.word, NULL::bytea FROM unnest($1) AS asked(word);
        RETURN;
    END IF;
    RETURN QUERY
    SELECT asked.word, found.row_ids
    FROM unnest($1) AS asked(word)
    CROSS JOIN LATERAL (
        SELECT string_agg(int8send(hits.row_id), '') AS row_ids
        FROM (
            SELECT row_id
            FROM search_rows
            WHERE lexemes @@ CAST(
                $2 || ' & ''' || replace(replace(
                    coalesce((ts_lexize('memstrata_stem', asked.word))[1], asked.word), '\', '\\'), '''', '''''')
                || '''' AS tsquery)
            ORDER BY row_id + 0 DESC
            LIMIT $3
        ) AS hits
    ) AS found;
END
$body$;
