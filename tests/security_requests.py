"""What an attacker may try by what is asked of a store: ids, values, queries, cursors."""

from tests.security_row import Row, ours, suite
from tests.storages import BACKENDS

NO_NAMES: dict[str, str] = dict.fromkeys(
    ("memory", "sqlite", "file"), "no name of a table, schema or key comes from outside"
)
STRANGERS = suite(
    "isolation",
    "to_a_stranger_a_run_is_as_if_it_had_never_been",
    "to_a_stranger_a_note_is_as_if_it_had_never_been",
    "to_a_stranger_a_result_is_as_if_it_had_never_been",
    "a_stranger_exports_and_imports_only_its_own",
    "the_operators_seam_counts_and_sweeps_one_tenant",
)
UNFIT = suite(
    "fidelity",
    "an_unfit_value_is_refused_in_runs_and_nothing_is_written",
    "an_unfit_value_is_refused_in_notes_and_nothing_is_written",
    "an_unfit_value_is_refused_in_tool_results_and_nothing_is_written",
)

REQUESTS = [
    Row(
        1,
        "ids that become paths: `..`, `/etc/passwd`, NUL, 300 letters, two forms of é",
        "an id is a name; none reaches outside, no two share a place, too long is refused",
        suite(
            "ids",
            "ids_that_look_alike_never_collide",
            "odd_ids_are_taken_exactly_as_they_are",
            "ids_of_512_bytes_are_told_apart_to_the_last_byte",
            "an_unfit_id_is_refused_by_the_name_of_its_field",
        ),
        {"file": ours("files_journal", "a_name_is_safe_and_tells_ids_apart")},
    ),
    Row(
        2,
        "refs that become paths, or are another tenant's",
        "not found, as for a ref that never was",
        [*STRANGERS[2:3], *suite("tool_results", "an_unknown_ref_answers_not_found_everywhere")],
    ),
    Row(
        5,
        "names of schemas and prefixes that carry more than a name",
        "plain names alone, refused before anything is sent",
        (),
        {
            "postgres": ours("postgres_connections", "a_schema_is_a_plain_name"),
            "redis": ours("redis_runs", "a_prefix_that_would_move_the_tag_is_refused"),
        },
        NO_NAMES,
    ),
    Row(
        6,
        "values that close a quote and go on in SQL",
        "values are parameters; nothing composes a statement of them",
        suite("fidelity", "text_comes_back_equal_in_runs", "text_comes_back_equal_in_notes"),
        {
            "sqlite": [
                *ours(
                    "sqlite_tables",
                    "sql_is_written_out_or_compiled_and_never_put_together",
                    "a_statement_refuses_values_in_its_text",
                ),
                *ours("security_source", "no_value_is_put_into_sql"),
            ],
            "postgres": ours("security_source", "no_value_is_put_into_sql"),
        },
    ),
    Row(
        7,
        "keys and values of filters that are code or operators",
        "keys are data; what cannot be compared is refused",
        [
            *suite("where", "keys_of_where_are_data"),
            *suite("where", "a_value_that_where_cannot_compare_is_refused"),
            *suite("ids", "labels_that_look_alike_are_told_apart_by_filters"),
        ],
    ),
    Row(
        8,
        "queries that are wildcards, slow patterns, half a phrase",
        "every character is literal, 64 KiB at most, in linear time",
        [
            *suite("recall", "every_character_of_a_query_is_literal"),
            *suite("recall", "a_query_that_looks_like_a_slow_pattern_costs_no_more_than_others"),
            *suite("tool_text", "every_character_of_a_pattern_is_literal"),
            *suite("tool_text", "a_regex_is_linear_or_refused"),
            *suite("limits", "a_query_of_64_kib_is_taken_and_a_byte_more_is_refused"),
        ],
    ),
    Row(
        9,
        "ids that are hash tags, patterns or commands of Redis",
        "one tag, ours; no key outside the prefix; no KEYS, no FLUSH",
        (),
        {
            "redis": [
                *ours("redis_runs", "the_tag_of_a_bucket_is_the_first_in_each_key_and_its_own"),
                *ours("redis_runs", "no_step_reaches_beyond_its_bucket"),
                *ours("security_redis", "after_the_suite_every_key_is_below_the_prefix"),
            ]
        },
        {b: "there are no keys of Redis" for b in BACKENDS if b != "redis"},
    ),
    Row(
        10,
        "text that would become part of a Lua script",
        "scripts are constant: there are as many as files",
        (),
        {
            "redis": [
                *ours("security_redis", "the_scripts_are_ours_however_much_is_asked"),
                *ours("redis_scripts", "a_script_decodes_nothing_and_makes_no_globals"),
            ]
        },
        {b: "there are no scripts" for b in BACKENDS if b != "redis"},
    ),
    Row(
        11,
        "every operation with every id, ref, key and cursor of another tenant",
        "the answer that what never existed gets, and nothing changes there",
        [
            *STRANGERS,
            *suite("isolation", "the_nearest_note_of_another_tenant_is_never_recalled"),
            *suite("ids", "tenants_that_look_alike_share_nothing"),
        ],
    ),
    Row(
        12,
        "cursors with flipped bits, of others, a megabyte long, with a forged seal",
        "refused; a forged seal shows nothing but a page of one's own",
        [
            *suite("listing", "a_cursor_that_nobody_made_is_refused"),
            *suite("listing", "a_cursor_of_another_tenant_is_refused"),
            *ours("security_cursors", "200_000_cursors_that_nobody_made_are_all_refused"),
            *ours("security_cursors", "a_forged_seal_shows_nothing_of_others_and_breaks_nothing"),
        ],
    ),
    Row(
        14,
        "lone surrogates, NaN, numbers beyond floats",
        "refused before anything is written, alike everywhere",
        UNFIT,
    ),
    Row(
        15,
        "floods: a batch of a gibibyte, a million entries, a query of a megabyte",
        "refused within 160 MiB of memory",
        [
            *ours("security_flood", "a_flood_is_refused_within_little_memory"),
            *suite("limits", "a_record_above_32_mib_is_refused_everywhere"),
            *suite("limits", "a_page_ends_at_16_mib_and_never_before_one_entry"),
        ],
    ),
    Row(
        18,
        "contents in errors of the driver and of ours",
        "our words name places and sizes; contents do not appear",
        [
            *suite("fidelity", "a_refusal_names_the_place_and_never_shows_the_content"),
            *ours("security_planted", "a_planted_entry_is_told_as_damage_and_not_shown"),
        ],
        {"postgres": ours("postgres_secrets", "what_is_stored_shows_in_no_error_and_no_log_line")},
    ),
    Row(
        19,
        "the cost of asking for what another tenant has",
        "what one that never was costs: the same entries are looked at",
        suite("isolation_costs", "a_strangers_id_costs_what_an_unused_one_costs"),
    ),
    Row(
        20,
        "generated ids that can be guessed",
        "128 random bits, and never twice",
        [
            *suite("runs", "generated_ids_cannot_be_guessed_from_one_another"),
            *suite("runs", "generated_ids_never_repeat"),
            *suite(
                "tool_results", "refs_that_are_generated_are_all_different_and_cannot_be_guessed"
            ),
        ],
    ),
    Row(
        21,
        "what was deleted: by ref, key, cursor, fork",
        "gone from every operation at once; what forks share stays theirs",
        [
            *suite("deleting", "a_run_that_is_not_there_is_unknown_to_every_operation"),
            *suite("deleting", "a_run_created_again_knows_no_old_keys"),
            *suite("parting", "deleting_one_of_two_leaves_the_other_whole"),
            *suite("memory", "a_deleted_note_is_gone_from_every_listing_at_once"),
            *suite("tool_results", "a_deleted_result_is_gone_and_its_ref_is_free"),
            *suite("isolation", "erasing_a_tenant_erases_all_of_that_tenant_alone"),
        ],
    ),
    Row(
        30,
        "notes that carry instructions",
        "out of a store's reach; metadata says whence, comes back equal and can be filtered by",
        [
            *suite("fidelity", "metadata_comes_back_equal"),
            *suite("where", "where_keeps_the_notes_whose_metadata_equals_the_value"),
        ],
    ),
    Row(
        32,
        "thousands who wait, servers that never answer",
        "everyone's time ends, said as what it is, and nothing stays taken",
        suite("outcomes", "a_timeout_ends_on_time_and_says_what_is_known"),
        {
            "postgres": ours(
                "postgres_connections",
                "two_connections_serve_fifty_callers",
                "whoever_waits_too_long_for_a_connection_has_sent_nothing",
            ),
            "redis": ours("redis_connections", "more_callers_than_connections_wait_for_their_turn"),
            "sqlite": ours(
                "sqlite_writer",
                "a_write_that_waits_for_another_process_is_not_applied_when_its_time_ends",
            ),
        },
    ),
]
