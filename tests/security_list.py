"""What an attacker may try on a store, row by row, and the tests that show what comes of it.

``python -m tests.security_list`` writes docs/security-list.md.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from tests.conftest import ROOT
from tests.five_storages import BACKENDS

PAGE = ROOT / "docs" / "security-list.md"
SUITE = "conformance_tests/suite/"

FILES_ALONE = {
    "memory": "nothing is on a disk",
    "redis": "the server's files are its own",
    "postgres": "the server's files are its own",
}
NO_SQL: dict[str, str] = dict.fromkeys(("memory", "file", "redis"), "there is no SQL")
NO_NAMES: dict[str, str] = dict.fromkeys(
    ("memory", "sqlite", "file"), "no name of a table, schema or key comes from outside"
)
NO_SERVER: dict[str, str] = dict.fromkeys(("memory", "sqlite", "file"), "there is no server")


@dataclass(frozen=True)
class Row:
    """One thing to attack. ``all`` are tests of every backend, ``on`` those of one alone.

    A test is named as "suite:test_ids.py::test_x", or "test_files_disks.py::test_x" for one of
    ours. ``free`` says why a backend has no such surface.
    """

    number: int
    surface: str
    answer: str
    all: Sequence[str] = ()
    on: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    free: Mapping[str, str] = field(default_factory=dict[str, str])


def _suite(module: str, *tests: str) -> list[str]:
    return [f"suite:test_{module}.py::test_{test}" for test in tests]


def _ours(module: str, *tests: str) -> list[str]:
    return [f"test_{module}.py::test_{test}" for test in tests]


_STRANGERS = _suite(
    "isolation",
    "to_a_stranger_a_run_is_as_if_it_had_never_been",
    "to_a_stranger_a_note_is_as_if_it_had_never_been",
    "to_a_stranger_a_result_is_as_if_it_had_never_been",
    "a_stranger_exports_and_imports_only_its_own",
    "the_operators_seam_counts_and_sweeps_one_tenant",
)
_UNFIT = _suite(
    "fidelity",
    "an_unfit_value_is_refused_in_runs_and_nothing_is_written",
    "an_unfit_value_is_refused_in_notes_and_nothing_is_written",
    "an_unfit_value_is_refused_in_tool_results_and_nothing_is_written",
)

ROWS = [
    Row(
        1,
        "ids that become paths: `..`, `/etc/passwd`, NUL, 300 letters, two forms of é",
        "an id is a name; none reaches outside, no two share a place, too long is refused",
        _suite(
            "ids",
            "ids_that_look_alike_never_collide",
            "odd_ids_are_taken_exactly_as_they_are",
            "ids_of_512_bytes_are_told_apart_to_the_last_byte",
            "an_unfit_id_is_refused_by_the_name_of_its_field",
        ),
        {"file": _ours("files_journal", "a_name_is_safe_and_tells_ids_apart")},
    ),
    Row(
        2,
        "refs that become paths, or are another tenant's",
        "not found, as for a ref that never was",
        [*_STRANGERS[2:3], *_suite("tool_results", "an_unknown_ref_answers_not_found_everywhere")],
    ),
    Row(
        3,
        "links and pipes planted where files of ours would be",
        "refused, and what they lead to is left alone",
        (),
        {
            "sqlite": _ours(
                "sqlite_opening",
                "a_symbolic_link_is_refused_and_its_target_left_alone",
                "a_second_name_of_the_file_is_refused",
            ),
            "file": _ours(
                "files_disks",
                "a_link_in_place_of_ours_is_not_followed",
                "a_pipe_in_place_of_a_journal_does_not_hang",
                "what_a_stranger_left_is_reported_and_left_alone",
            ),
        },
        FILES_ALONE,
    ),
    Row(
        4,
        "files that others may read, whatever the umask",
        "the owner's alone; a warning where somebody opened them",
        (),
        {
            "sqlite": _ours(
                "sqlite_opening",
                "only_the_owner_may_read_the_files_whatever_the_umask",
                "a_file_that_others_may_read_is_a_warning",
            ),
            "file": [
                *_ours("files_disks", "modes_are_those_of_the_owner_alone_whatever_the_umask"),
                *_ours("files_check", "what_loses_data_or_shows_it_is_named"),
            ],
        },
        FILES_ALONE,
    ),
    Row(
        5,
        "names of schemas and prefixes that carry more than a name",
        "plain names alone, refused before anything is sent",
        (),
        {
            "postgres": _ours("postgres_connections", "a_schema_is_a_plain_name"),
            "redis": _ours("redis_runs", "a_prefix_that_would_move_the_tag_is_refused"),
        },
        dict.fromkeys(
            ("memory", "sqlite", "file"), "no name of a table, schema or key comes from outside"
        ),
    ),
    Row(
        6,
        "values that close a quote and go on in SQL",
        "values are parameters; nothing composes a statement of them",
        _suite("fidelity", "text_comes_back_equal_in_runs", "text_comes_back_equal_in_notes"),
        {
            "sqlite": [
                *_ours(
                    "sqlite_tables",
                    "sql_is_written_out_or_compiled_and_never_put_together",
                    "a_statement_refuses_values_in_its_text",
                ),
                *_ours("security_source", "no_value_is_put_into_sql"),
            ],
            "postgres": _ours("security_source", "no_value_is_put_into_sql"),
        },
    ),
    Row(
        7,
        "keys and values of filters that are code or operators",
        "keys are data; what cannot be compared is refused",
        [
            *_suite("where", "keys_of_where_are_data"),
            *_suite("where", "a_value_that_where_cannot_compare_is_refused"),
            *_suite("ids", "labels_that_look_alike_are_told_apart_by_filters"),
        ],
    ),
    Row(
        8,
        "queries that are wildcards, slow patterns, half a phrase",
        "every character is literal, 64 KiB at most, in linear time",
        [
            *_suite("recall", "every_character_of_a_query_is_literal"),
            *_suite("recall", "a_query_that_looks_like_a_slow_pattern_costs_no_more_than_others"),
            *_suite("tool_text", "every_character_of_a_pattern_is_literal"),
            *_suite("tool_text", "a_regex_is_linear_or_refused"),
            *_suite("limits", "a_query_of_64_kib_is_taken_and_a_byte_more_is_refused"),
        ],
    ),
    Row(
        9,
        "ids that are hash tags, patterns or commands of Redis",
        "one tag, ours; no key outside the prefix; no KEYS, no FLUSH",
        (),
        {
            "redis": [
                *_ours("redis_runs", "the_tag_of_a_bucket_is_the_first_in_each_key_and_its_own"),
                *_ours("redis_runs", "no_step_reaches_beyond_its_bucket"),
                *_ours("security_redis", "after_the_suite_every_key_is_below_the_prefix"),
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
                *_ours("security_redis", "the_scripts_are_ours_however_much_is_asked"),
                *_ours("redis_scripts", "a_script_decodes_nothing_and_makes_no_globals"),
            ]
        },
        {b: "there are no scripts" for b in BACKENDS if b != "redis"},
    ),
    Row(
        11,
        "every operation with every id, ref, key and cursor of another tenant",
        "the answer that what never existed gets, and nothing changes there",
        [
            *_STRANGERS,
            *_suite("isolation", "the_nearest_note_of_another_tenant_is_never_recalled"),
            *_suite("ids", "tenants_that_look_alike_share_nothing"),
        ],
    ),
    Row(
        12,
        "cursors with flipped bits, of others, a megabyte long, with a forged seal",
        "refused; a forged seal shows nothing but a page of one's own",
        [
            *_suite("listing", "a_cursor_that_nobody_made_is_refused"),
            *_suite("listing", "a_cursor_of_another_tenant_is_refused"),
            *_ours("security_cursors", "200_000_cursors_that_nobody_made_are_all_refused"),
            *_ours("security_cursors", "a_forged_seal_shows_nothing_of_others_and_breaks_nothing"),
        ],
    ),
    Row(
        13,
        "stored records that were changed to pickles, constructors, YAML, deep or huge JSON",
        "data, or damage that is told; nothing is revived and nothing runs",
        [
            *_ours("security_planted", "a_planted_entry_is_told_as_damage_and_not_shown"),
            *_ours("security_planted", "a_planted_call_is_a_message_with_fields_and_is_not_made"),
            *_ours("security_planted", "a_planted_tool_result_is_told_as_damage"),
            *_ours("security_source", "no_module_imports_what_revives_objects"),
            *_ours("security_source", "no_module_runs_text"),
        ],
    ),
    Row(
        14,
        "lone surrogates, NaN, numbers beyond floats",
        "refused before anything is written, alike everywhere",
        _UNFIT,
    ),
    Row(
        15,
        "floods: a batch of a gibibyte, a million entries, a query of a megabyte",
        "refused within 160 MiB of memory",
        [
            *_ours("security_flood", "a_flood_is_refused_within_little_memory"),
            *_suite("limits", "a_record_above_32_mib_is_refused_everywhere"),
            *_suite("limits", "a_page_ends_at_16_mib_and_never_before_one_entry"),
        ],
    ),
    Row(
        16,
        "small records that inflate to large ones",
        "nothing that is stored is compressed",
        _ours("security_source", "what_is_stored_is_never_inflated"),
    ),
    Row(
        17,
        "passwords in errors, logs, reprs and reports",
        "in none of them, nor in what the suite prints at its loudest",
        _ours(
            "security_printed",
            "a_failing_run_at_its_loudest_shows_no_password_and_nothing_of_users",
            "a_passing_run_at_its_loudest_shows_no_password_and_nothing_of_users",
            "a_storage_that_cannot_be_opened_shows_no_password",
        ),
        {
            "postgres": _ours(
                "postgres_secrets",
                "the_password_shows_nowhere",
                "reprs_show_neither_password_nor_url",
            ),
            "redis": _ours("redis_connections", "no_error_shows_a_password"),
        },
    ),
    Row(
        18,
        "contents in errors of the driver and of ours",
        "our words name places and sizes; contents do not appear",
        [
            *_suite("fidelity", "a_refusal_names_the_place_and_never_shows_the_content"),
            *_ours("security_planted", "a_planted_entry_is_told_as_damage_and_not_shown"),
        ],
        {"postgres": _ours("postgres_secrets", "what_is_stored_shows_in_no_error_and_no_log_line")},
    ),
    Row(
        19,
        "the cost of asking for what another tenant has",
        "what one that never was costs: the same entries are looked at",
        _suite("isolation_costs", "a_strangers_id_costs_what_an_unused_one_costs"),
    ),
    Row(
        20,
        "generated ids that can be guessed",
        "128 random bits, and never twice",
        [
            *_suite("runs", "generated_ids_cannot_be_guessed_from_one_another"),
            *_suite("runs", "generated_ids_never_repeat"),
            *_suite(
                "tool_results", "refs_that_are_generated_are_all_different_and_cannot_be_guessed"
            ),
        ],
    ),
    Row(
        21,
        "what was deleted: by ref, key, cursor, fork",
        "gone from every operation at once; what forks share stays theirs",
        [
            *_suite("deleting", "a_run_that_is_not_there_is_unknown_to_every_operation"),
            *_suite("deleting", "a_run_created_again_knows_no_old_keys"),
            *_suite("parting", "deleting_one_of_two_leaves_the_other_whole"),
            *_suite("memory", "a_deleted_note_is_gone_from_every_listing_at_once"),
            *_suite("tool_results", "a_deleted_result_is_gone_and_its_ref_is_free"),
            *_suite("isolation", "erasing_a_tenant_erases_all_of_that_tenant_alone"),
        ],
    ),
    Row(
        22,
        "servers that are not who they say, or do not encrypt",
        "encryption that was asked for is done and checked, or nothing is sent",
        (),
        {
            "redis": _ours("redis_connections", "rediss_speaks_to_a_server_that_it_can_trust"),
            "postgres": _ours(
                "security_postgres", "encryption_that_was_asked_for_is_never_done_without"
            ),
        },
        NO_SERVER,
    ),
    Row(
        23,
        "more rights on the server than needed",
        "the rights that the pages name are enough for everything",
        (),
        {
            "redis": _ours("redis_roles", "the_documented_rights_are_enough_for_everything"),
            "postgres": _ours("postgres_roles", "the_documented_grants_are_enough_for_everything"),
        },
        NO_SERVER,
    ),
    Row(
        24,
        "functions and operators that others made under the names of the server's",
        "never called",
        (),
        {
            "postgres": _ours(
                "security_postgres",
                "functions_that_others_made_are_never_called",
                "a_search_path_in_which_their_functions_would_win_is_refused",
            )
        },
        {**NO_SQL, "sqlite": "a file has no schemas of others"},
    ),
    Row(
        25,
        "a database file with triggers, of another application, of a newer format",
        "refused and left as it is",
        (),
        {
            "sqlite": _ours(
                "sqlite_opening", "what_is_not_ours_or_newer_is_refused_and_left_as_it_is"
            )
        },
        {b: "there is no database file of ours" for b in BACKENDS if b != "sqlite"},
    ),
    Row(
        26,
        "files with lengths, sums or records that lie",
        "damage that is told, in time, and never another's data",
        (),
        {
            "file": [
                *_ours("files_fuzz", "damage_is_told_and_nothing_else_is_shown"),
                *_ours("files_fuzz", "no_flipped_bit_of_a_header_goes_unseen"),
                *_ours("files_journal", "damage_before_a_later_write_is_told_and_never_skipped"),
            ],
            "sqlite": _ours(
                "sqlite_writer",
                "a_damaged_file_is_an_error_of_ours_and_stays_as_it_is",
                "a_damaged_entry_names_its_place",
            ),
        },
        FILES_ALONE,
    ),
    Row(
        27,
        "ids that forge lines of a log or steer a terminal",
        "one line each, escaped",
        [
            *_ours("watching", "no_id_can_forge_a_line"),
            *_ours("cli_secrets", "what_could_steer_a_terminal_is_shown_by_its_code"),
        ],
    ),
    Row(
        28,
        "the suite: a hostile backend or host project",
        "it fetches nothing, reads no settings of the host, and escapes names",
        [
            *_ours("security_source", "the_suite_fetches_nothing"),
            *_ours("suite_machinery", "the_real_suite_runs_in_a_hostile_project"),
            *_ours("report", "a_name_with_markup_stays_in_its_cell"),
        ],
    ),
    Row(
        29,
        "packages that offer a scheme of ours, or run on import",
        "built-in names cannot be taken over; only a scheme that is asked for is imported",
        _ours(
            "security_source",
            "nobody_stands_in_for_a_scheme_of_ours",
            "importing_the_core_imports_no_backend_of_anybody",
        ),
    ),
    Row(
        30,
        "notes that carry instructions",
        "out of a store's reach; metadata says whence, comes back equal and can be filtered by",
        [
            *_suite("fidelity", "metadata_comes_back_equal"),
            *_suite("where", "where_keeps_the_notes_whose_metadata_equals_the_value"),
        ],
    ),
    Row(
        31,
        "dependencies that change under us",
        "two in the core; everything that is installed is pinned",
        _ours(
            "security_source",
            "the_core_depends_on_two_packages",
            "everything_that_is_installed_is_pinned",
        ),
    ),
    Row(
        32,
        "thousands who wait, servers that never answer",
        "everyone's time ends, said as what it is, and nothing stays taken",
        _suite("outcomes", "a_timeout_ends_on_time_and_says_what_is_known"),
        {
            "postgres": _ours(
                "postgres_connections",
                "two_connections_serve_fifty_callers",
                "whoever_waits_too_long_for_a_connection_has_sent_nothing",
            ),
            "redis": _ours(
                "redis_connections", "more_callers_than_connections_wait_for_their_turn"
            ),
            "sqlite": _ours(
                "sqlite_writer",
                "a_write_that_waits_for_another_process_is_not_applied_when_its_time_ends",
            ),
        },
    ),
]


@cache
def _tests_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def place_of(test: str) -> tuple[str, str]:
    """The file, relative to the repository, and the name of a test."""
    module, _, name = test.partition("::")
    home = SUITE if module.startswith("suite:") else "tests/"
    return home + module.removeprefix("suite:"), name


def exists(test: str) -> bool:
    """Whether there is such a test."""
    path, name = place_of(test)
    return (ROOT / path).exists() and name in _tests_of(path)


def page() -> str:
    """docs/security-list.md."""
    lines = [
        "# What attackers may try",
        "",
        "Each row is a surface and what comes of an attack on it. The tests show it: on all five",
        "backends where nothing else is said. The threat model: [SECURITY.md](../SECURITY.md).",
        "This page is made by `python -m tests.security_list`; a test fails for a row that no test",
        "shows on a backend.",
    ]
    for row in ROWS:
        lines += ["", f"## {row.number}. {row.surface[0].upper()}{row.surface[1:]}", ""]
        lines += [f"{row.answer[0].upper()}{row.answer[1:]}.", ""]
        lines += [f"- {_told(test)}" for test in row.all]
        for backend, tests in row.on.items():
            lines += [f"- {backend}: {_told(test)}" for test in tests]
        reasons = dict[str, list[str]]()
        for backend, why in row.free.items():
            reasons.setdefault(why, []).append(backend)
        lines += [f"- {', '.join(of)}: none, since {why}" for why, of in reasons.items()]
    return "\n".join(lines) + "\n"


def _told(test: str) -> str:
    path, name = place_of(test)
    return f"`{path}` {name.removeprefix('test_').replace('_', ' ')}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
