"""What an attacker may try around a store: its files, its server, what is printed and imported."""

from tests.security_row import Row, ours
from tests.storages import BACKENDS

FILES_ALONE = {
    "memory": "nothing is on a disk",
    "redis": "the server's files are its own",
    "postgres": "the server's files are its own",
}
NO_SQL: dict[str, str] = dict.fromkeys(("memory", "file", "redis"), "there is no SQL")
NO_SERVER: dict[str, str] = dict.fromkeys(("memory", "sqlite", "file"), "there is no server")

SURROUNDINGS = [
    Row(
        3,
        "links and pipes planted where files of ours would be",
        "refused, and what they lead to is left alone",
        (),
        {
            "sqlite": ours(
                "sqlite_opening",
                "a_symbolic_link_is_refused_and_its_target_left_alone",
                "a_second_name_of_the_file_is_refused",
            ),
            "file": ours(
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
            "sqlite": ours(
                "sqlite_opening",
                "only_the_owner_may_read_the_files_whatever_the_umask",
                "a_file_that_others_may_read_is_a_warning",
            ),
            "file": [
                *ours("files_disks", "modes_are_those_of_the_owner_alone_whatever_the_umask"),
                *ours("files_check", "what_loses_data_or_shows_it_is_named"),
            ],
        },
        FILES_ALONE,
    ),
    Row(
        13,
        "stored records that were changed to pickles, constructors, YAML, deep or huge JSON",
        "data, or damage that is told; nothing is revived and nothing runs",
        [
            *ours("security_planted", "a_planted_entry_is_told_as_damage_and_not_shown"),
            *ours("security_planted", "a_planted_call_is_a_message_with_fields_and_is_not_made"),
            *ours("security_planted", "a_planted_tool_result_is_told_as_damage"),
            *ours("security_planted", "planted_metadata_is_told_as_damage"),
            *ours("security_source", "no_module_imports_what_revives_objects"),
            *ours("security_source", "no_module_runs_text"),
        ],
    ),
    Row(
        16,
        "small records that inflate to large ones",
        "nothing that is stored is compressed",
        ours("security_source", "what_is_stored_is_never_inflated"),
    ),
    Row(
        17,
        "passwords in errors, logs, reprs and reports",
        "in none of them, nor in what the suite prints at its loudest",
        ours(
            "security_printed",
            "a_failing_run_at_its_loudest_shows_no_password_and_nothing_of_users",
            "a_passing_run_at_its_loudest_shows_no_password_and_nothing_of_users",
            "a_storage_that_cannot_be_opened_shows_no_password",
        ),
        {
            "postgres": ours(
                "postgres_secrets",
                "the_password_shows_nowhere",
                "reprs_show_neither_password_nor_url",
            ),
            "redis": ours("redis_connections", "no_error_shows_a_password"),
        },
    ),
    Row(
        22,
        "servers that are not who they say, or do not encrypt",
        "encryption that was asked for is done and checked, or nothing is sent",
        (),
        {
            "redis": ours("redis_connections", "rediss_speaks_to_a_server_that_it_can_trust"),
            "postgres": ours(
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
            "redis": ours("redis_roles", "the_documented_rights_are_enough_for_everything"),
            "postgres": ours("postgres_roles", "the_documented_grants_are_enough_for_everything"),
        },
        NO_SERVER,
    ),
    Row(
        24,
        "functions and operators that others made under the names of the server's",
        "never called",
        (),
        {
            "postgres": ours(
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
            "sqlite": ours(
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
                *ours("files_fuzz", "damage_is_told_and_nothing_else_is_shown"),
                *ours("files_fuzz", "no_flipped_bit_of_a_header_goes_unseen"),
                *ours("files_journal", "damage_before_a_later_write_is_told_and_never_skipped"),
            ],
            "sqlite": ours(
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
            *ours("watching", "no_id_can_forge_a_line"),
            *ours("cli_secrets", "what_could_steer_a_terminal_is_shown_by_its_code"),
        ],
    ),
    Row(
        28,
        "the suite: a hostile backend or host project",
        "it fetches nothing, reads no settings of the host, and escapes names",
        [
            *ours("security_source", "the_suite_fetches_nothing"),
            *ours("suite_machinery", "the_real_suite_runs_in_a_hostile_project"),
            *ours("report", "a_name_with_markup_stays_in_its_cell"),
        ],
    ),
    Row(
        29,
        "packages that offer a scheme of ours, or run on import",
        "built-in names cannot be taken over; only a scheme that is asked for is imported",
        ours(
            "security_source",
            "nobody_stands_in_for_a_scheme_of_ours",
            "importing_the_core_imports_no_backend_of_anybody",
        ),
    ),
    Row(
        31,
        "dependencies that change under us",
        "two in the core; everything that is installed is pinned",
        ours(
            "security_source",
            "the_core_depends_on_two_packages",
            "everything_that_is_installed_is_pinned",
        ),
    ),
]
