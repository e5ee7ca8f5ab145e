"""The calls in a query that Spark cannot run unchanged: calls of permanent functions and of current_database()."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, name_of, tokenize
from airflow_hivex.core.parser.statements import DatabaseCall, FunctionCall, Span

_NAMES = (Kind.WORD, Kind.QUOTED)
_BEFORE_CALLS = frozenset(
    """
    ALL AND BETWEEN BY CASE DISTINCT DIV ELSE ESCAPE EXCEPT EXTEND FILTER FROM HAVING ILIKE IN INTERSECT JOIN LATERAL
    LIKE LIMIT NOT OFFSET ON OR OUTER QUALIFY REGEXP RETURN RLIKE SELECT SET THEN UNION USING VALUES VIEW WHEN WHERE
    AGGREGATE
    """.split()  # noqa: SIM905
)
"""The words that can stand before a call. After any other word, ``x (a, b)`` is an alias with columns, not a call."""
_NO_NAMES = _BEFORE_CALLS | frozenset(
    """
    AS CUBE DEC EXISTS IDENTIFIER INTERVAL NUMERIC OVER PIVOT ROLLUP SETS TIMESTAMPADD TIMESTAMPDIFF TRY_CAST UNPIVOT
    VARCHAR
    """.split()  # noqa: SIM905
)
"""The words before a parenthesis that cannot name permanent functions: SQL keywords, and functions of Spark."""
_CURRENT_DATABASE = ("current_database", "current_schema")
_END_OF_ITEM = frozenset("EXCEPT FROM INTERSECT LIMIT MINUS ORDER UNION WHERE".split())  # noqa: SIM905
_OTHER_CLAUSES = frozenset("BY FROM HAVING ON SET VALUES WHEN WHERE".split())  # noqa: SIM905
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")


def function_calls(tokens: Sequence[Token]) -> tuple[FunctionCall, ...]:
    """Return the calls of functions that can be permanent: functions with a database or a name unknown to Spark."""
    found = []
    for index, token in enumerate(tokens[:-1]):
        if token.kind not in _NAMES or not tokens[index + 1].is_symbol("("):
            continue
        first = _first_part(tokens, index)
        if first is None:
            continue
        name = normalise(name_of(token))
        database = normalise(name_of(tokens[index - 2])) if first < index else None
        if database is None and not _is_call(tokens, index, name):
            continue
        found.append(FunctionCall(name, database, tokens[first].start, token.end))
    return tuple(found)


def default_calls(parameters: str) -> tuple[FunctionCall, ...]:
    """Return the calls, as :func:`function_calls` does, in the DEFAULT values of a function's parameters."""
    found: list[FunctionCall] = []
    tokens = tokenize(parameters)
    start, depth = None, 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if start is None and depth == 0 and token.word == "DEFAULT":
            start = index + 1
        elif start is not None and (index + 1 == len(tokens) or (depth == 0 and token.is_symbol(","))):
            found += function_calls(tokens[start : index + 1])
            start = None
    return tuple(found)


def qualifying_places(text: str, start: int, end: int, name: str) -> tuple[Span, ...]:
    """Return the places between ``start`` and ``end`` where ``name`` qualifies another name, as in ``name.column``.

    The result is empty if ``name`` also stands between ``start`` and ``end`` without a point after it, because ``name``
    can then mean something else.
    """
    tokens = [token for token in tokenize(text) if start <= token.start < end]
    found = []
    for index, token in enumerate(tokens):
        if token.kind not in _NAMES or normalise(name_of(token)) != name:
            continue
        if index and tokens[index - 1].is_symbol("."):
            continue
        if index + 1 == len(tokens) or not tokens[index + 1].is_symbol("."):
            return ()
        found.append(Span(token.start, token.end))
    return tuple(found)


def _first_part(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the first part of the name that ends at ``index``, or None for more than two parts."""
    parts = [index]
    while parts[0] > 1 and tokens[parts[0] - 1].is_symbol(".") and tokens[parts[0] - 2].kind in _NAMES:
        parts.insert(0, parts[0] - 2)
    return parts[0] if len(parts) < 3 else None


def _is_call(tokens: Sequence[Token], index: int, name: str) -> bool:
    token = tokens[index]
    if name in SPARK_FUNCTIONS or token.word in _NO_NAMES:
        return False
    if index == 0:
        return True
    before = tokens[index - 1]
    if before.kind is Kind.SYMBOL:
        return not before.is_symbol(")", "]", ".") and not _is_common_table(tokens, index)
    return before.word in _BEFORE_CALLS


def _is_common_table(tokens: Sequence[Token], index: int) -> bool:
    """Return whether the name at an index is a common table expression: ``, name (columns) AS (SELECT ...``."""
    if not tokens[index - 1].is_symbol(","):
        return False
    depth = 0
    for at in range(index + 1, len(tokens) - 3):
        depth += tokens[at].is_symbol("(") - tokens[at].is_symbol(")")
        if depth == 0:
            query = tokens[at + 3]
            begins = query.word in _QUERY_WORDS or query.is_symbol("(")
            return tokens[at + 1].word == "AS" and tokens[at + 2].is_symbol("(") and begins
    return False


def database_calls(tokens: Sequence[Token]) -> tuple[DatabaseCall, ...]:
    """Return the calls of current_database() and current_schema(), which Spark would answer with a wrong database."""
    found = []
    for index, token in enumerate(tokens[:-2]):
        if token.kind not in _NAMES or name_of(token).lower() not in _CURRENT_DATABASE:
            continue
        is_qualified = index > 0 and tokens[index - 1].is_symbol(".")
        if not is_qualified and tokens[index + 1].is_symbol("(") and tokens[index + 2].is_symbol(")"):
            column = f"{name_of(token)}()" if _is_item(tokens, index, index + 3) else None
            found.append(DatabaseCall(token.start, tokens[index + 2].end, column))
    return tuple(found)


def _is_item(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return whether the tokens from ``start`` to ``end`` are a whole expression of a SELECT list, without an alias."""
    if end < len(tokens):
        following = tokens[end]
        if not following.is_symbol(",", ")", "|>") and following.word not in _END_OF_ITEM:
            return False
    if start == 0:
        return False
    before = tokens[start - 1]
    if not before.is_symbol(",") and before.word not in ("SELECT", "DISTINCT", "ALL"):
        return False
    depth = 0
    for token in reversed(tokens[:start]):
        depth += token.is_symbol(")") - token.is_symbol("(")
        if depth < 0 or (depth == 0 and token.word in _OTHER_CLAUSES):
            return False
        if depth == 0 and token.word == "SELECT":
            return True
    return False


# Source: SHOW SYSTEM FUNCTIONS of Spark 4.2. They have priority over permanent functions of the same name without a
# database.
SPARK_FUNCTIONS = frozenset(
    """
    abs acos acosh add_months aes_decrypt aes_encrypt aggregate and any any_value approx_count_distinct
    approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate array array_agg
    array_append array_compact array_contains array_distinct array_except array_insert array_intersect array_join
    array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort array_union
    arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh avg base64 between bigint bin binary
    bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_and_agg bitmap_bit_position bitmap_bucket_number
    bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or boolean bround btrim cardinality case cast cbrt
    ceil ceiling char char_length character_length chr coalesce collate collation collations collect_list collect_set
    concat concat_ws contains conv convert_timezone corr cos cosh cot count count_if count_min_sketch covar_pop
    covar_samp crc32 csc cume_dist curdate current_catalog current_database current_date current_path current_schema
    current_time current_timestamp current_timezone current_user date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear decimal decode degrees dense_rank div double e element_at elt encode endswith equal_null every exists
    exp explode explode_outer expm1 extract factorial filter find_in_set first first_value flatten float floor forall
    format_number format_string from_avro from_csv from_json from_protobuf from_unixtime from_utc_timestamp from_xml
    get get_json_object getbit greatest grouping grouping_id hash hex histogram_numeric hll_sketch_agg
    hll_sketch_estimate hll_union hll_union_agg hour hypot if ifnull ilike in initcap inline inline_outer
    input_file_block_length input_file_block_start input_file_name instr int is_valid_utf8 is_valid_variant
    is_variant_null isnan isnotnull isnull java_method json_array_length json_object_keys json_tuple
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
    kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
    kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
    kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
    kll_sketch_to_string_float kurtosis lag last last_day last_value lcase lead least left len length levenshtein like
    listagg ln localtimestamp locate log log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval
    make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map
    map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values
    map_zip_with mask max max_by md5 mean measure median min min_by minute mod mode monotonically_increasing_id month
    monthname months_between named_struct nanvl negative next_day not now nth_value ntile nullif nullifzero nvl nvl2
    octet_length or overlay parse_json parse_url percent_rank percentile percentile_approx percentile_cont
    percentile_disc pi pmod posexplode posexplode_outer position positive pow power printf python_worker_logs quarter
    quote radians raise_error rand randn random randstr range rank reduce reflect regexp regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint rlike round
    row_number rpad rtrim schema_of_avro schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg
    schema_of_xml sec second sentences sequence session_user session_window sha sha1 sha2 shiftleft shiftright
    shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint some sort_array soundex space
    spark_partition_id split split_part sql_keywords sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    stack startswith std stddev stddev_pop stddev_samp str_to_map string string_agg struct substr substring
    substring_index sum tan tanh theta_difference theta_intersection theta_intersection_agg theta_sketch_agg
    theta_sketch_estimate theta_union theta_union_agg time time_bucket time_diff time_from_micros time_from_millis
    time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp timestamp_micros
    timestamp_millis timestamp_seconds tinyint to_avro to_binary to_char to_csv to_date to_json to_number to_protobuf
    to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar
    to_variant_object to_xml transform transform_keys transform_values translate trim trunc try_add try_aes_decrypt
    try_avg try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_reflect try_subtract try_sum
    try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
    try_variant_get tuple_difference_double tuple_difference_integer tuple_difference_theta_double
    tuple_difference_theta_integer tuple_intersection_agg_double tuple_intersection_agg_integer
    tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
    tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double
    tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
    tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer
    tuple_union_theta_double tuple_union_theta_integer typeof ucase unbase64 unhex uniform unix_date unix_micros
    unix_millis unix_seconds unix_timestamp upper url_decode url_encode user uuid validate_utf8 var_pop var_samp
    variance variant_explode variant_explode_outer variant_get vector_avg vector_cosine_similarity
    vector_inner_product vector_l2_distance vector_norm vector_normalize vector_sum version weekday weekofyear when
    width_bucket window window_time xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
    xpath_short xpath_string xxhash64 year zeroifnull zip_with
    """.split()  # noqa: SIM905
)
