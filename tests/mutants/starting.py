"""Planted bugs of a start: which imports it omits, and how it reads a ledger."""

from tests.mutants.edits import Text, delete, replace, replace_statement, shift
from tests.mutants.mutant import Mutant, one

_ENTRIES = "tests/core/test_entries.py"
_GATHERED = "tests/index/table/test_bulk_insert.py"
_LOADING = "tests/index/snapshot/test_claims_reader.py"
_DESCRIPTORS = "tests/faults/server/test_descriptors.py"
_MANY = "tests/faults/ledger/test_many_ledgers.py"
_SHORTAGE = "tests/engine/recovery/test_want_of_resources.py"
_AWAY = "tests/engine/recovery/test_away.py"
_MOVED = "tests/faults/server/test_deleted_folder.py"
_READING = "tests/faults/ledger/test_verified_ranges.py"
_SETTINGS = "tests/settings/test_settings.py"
_SETTING_UP = "tests/meta/test_setup.py"
_DROPPED = "tests/index/table/test_segments.py::test_address_space_of_a_dropped_index_is_free_for_the_next_one"

STARTING: tuple[Mutant, ...] = (
    one(
        "a variable that is no setting is passed over",
        "oncegate.settings::load",
        replace("unusable(os.environ, names(), flag_values)", "()"),
        f"{_SETTINGS}::test_a_variable_that_is_no_setting_is_refused_by_its_name",
    ),
    one(
        "the line of a server that is away names its URL twice",
        "oncegate.ledgers.redis.connection::unusable",
        replace("str(error).removeprefix(address.shown).removeprefix(':').strip()", "str(error)"),
        "tests/faults/redis/test_served.py::test_without_a_server_or_a_witness_a_start_ends_with_one_line",
    ),
    one(
        "a probe omits the reason why a namespace is down",
        "oncegate.transports.health::_because",
        replace("f' ({reason})' if reason else ''", "''"),
        f"{_AWAY}::test_a_ledger_that_is_away_is_reported_and_serves_again_without_a_new_opening",
    ),
    one(
        "a probe reveals a password in an error",
        "oncegate.engine.failures::reason_of",
        replace(
            "_PASSWORDS.sub('***', ' '.join(str(error).split()) or repr(error))",
            "' '.join(str(error).split()) or repr(error)",
        ),
        f"{_AWAY}::test_a_ledger_that_is_away_is_reported_and_serves_again_without_a_new_opening",
    ),
    one(
        "only the next append reports a moved folder",
        "oncegate.ledgers.log.ledger::LogLedger.look",
        delete("self.end.write_beside(error)"),
        f"{_MOVED}::test_an_append_under_way_when_its_folder_is_moved_reports_its_own_outcome",
    ),
    one(
        "a check of the folder reports an append in flight as not written",
        "oncegate.ledgers.log.ledger::LogLedger.look",
        replace("self._appending or self.end.ending is not None", "self.end.ending is not None"),
        f"{_MOVED}::test_an_append_under_way_when_its_folder_is_moved_reports_its_own_outcome",
    ),
    one(
        "a password in the URL of brokers is shown",
        "oncegate.ledgers.kafka.address::parse_address",
        replace("without_passwords(f'kafka:{where}')", "f'kafka:{where}'"),
        "tests/cli/test_verbs.py::test_a_password_in_the_url_of_a_ledger_is_never_shown",
    ),
    one(
        "a password in the URL of a ledger is shown among the settings",
        "oncegate.cli.serve::_shown",
        replace(
            ("replace(origin, value=without_passwords(str(origin.value))) if origin.name == 'ledger' else origin"),
            "origin",
        ),
        "tests/cli/test_verbs.py::test_a_password_in_the_url_of_a_ledger_is_never_shown",
    ),
    one(
        "a start that is refused leaves its new data folder",
        "oncegate.ledgers.log.ledgers::open_log",
        replace("is_new and (not ledgers.is_used)", "False"),
        "tests/transports/http/test_serve.py::test_a_start_that_is_refused_leaves_no_data_folder_of_its_own",
    ),
    one(
        "a new data folder is removed though its ledger was opened",
        "oncegate.ledgers.log.ledgers::open_log",
        replace("is_new and (not ledgers.is_used)", "is_new"),
        "tests/faults/ledger/test_data_dir.py::test_a_new_folder_whose_ledger_was_opened_stays_whatever_ends_it",
    ),
    one(
        "service links of Kubernetes are taken for misspelt settings",
        "oncegate.variables::unknown",
        replace("name not in names and (not _is_link(name, value))", "name not in names"),
        f"{_SETTINGS}::test_what_kubernetes_and_clients_put_into_the_environment_is_no_misspelt_setting",
    ),
    one(
        "an unknown tag that changes the meaning is passed over",
        "oncegate.core.entries.codec::_get_tagged",
        replace("number < INFORMS", "False"),
        _ENTRIES,
    ),
    one("a tag may come twice", "oncegate.core.entries.codec::_get_tagged", shift("number <= last"), _ENTRIES),
    one(
        "an unknown tag that only informs is refused",
        "oncegate.core.entries.codec::_get_tagged",
        replace_statement(
            "if number < INFORMS:\n    ...",
            "raise EntryError(f'unknown tag {number}, which changes the meaning of the entry')",
        ),
        _ENTRIES,
    ),
    one(
        "an entry of another version is read",
        "oncegate.core.entries.codec::decode",
        replace("data[1] != VERSION", "data[1] > VERSION"),
        _ENTRIES,
        "tests/engine/recovery/test_replay.py",
    ),
    one(
        "a start with pandas",
        "oncegate.__main__::main",
        delete("sys.meta_path.insert(...)"),
        "tests/cli/test_start.py",
    ),
    one(
        "a start that can keep no kernels ends",
        "oncegate.compilation::compiled",
        replace_statement("if 'no locator available' not in str(error):\n    ...", "raise"),
        "tests/cli/test_read_only.py",
    ),
    one(
        "kernels that can be read are compiled again",
        "oncegate.runtime.kernel_cache::keep_kernels",
        delete("_copy(...)"),
        "tests/cli/test_read_only.py",
    ),
    one(
        "a set-up asks for a Java that apt only refers to",
        "scripts/setup.sh",
        Text(
            "    LC_ALL=C apt-cache policy \"$1\" 2>/dev/null | grep -q '^  Candidate: [^(]'\n",
            '    apt-cache show "$1" >/dev/null 2>&1\n',
        ),
        _SETTING_UP,
    ),
    one(
        "Java 8 is version 1",
        "scripts/setup.sh",
        Text("\\(1\\.\\)\\{0,1\\}\\([0-9]*\\).*/\\2/p", "\\([0-9]*\\).*/\\1/p"),
        _SETTING_UP,
    ),
    one(
        "a set-up makes an environment by the Python of the one that it replaces",
        "scripts/setup.sh",
        Text("\nleave_venv\n", "\n"),
        _SETTING_UP,
    ),
    one(
        "a set-up without network loses the environment",
        "scripts/setup.sh",
        Text('    if [ -d "$VENV.before" ]; then mv "$VENV.before" "$VENV"; fi\n', ""),
        _SETTING_UP,
    ),
    one(
        "a set-up without network takes no wheels",
        "scripts/setup.sh",
        Text('    if [ -d "$WHEELS" ]; then\n', "    if false; then\n"),
        _SETTING_UP,
    ),
    one(
        "wheels that lack a package stop a set-up",
        "scripts/setup.sh",
        Text(
            'if packages --no-index --find-links "$WHEELS" 2>/dev/null; then return; fi',
            'packages --no-index --find-links "$WHEELS" 2>/dev/null || return',
        ),
        _SETTING_UP,
    ),
    Mutant(
        "one process compiles all kernels",
        (
            ("oncegate.app::compile_smaller_part", delete("_warm_decoding()")),
            ("oncegate.app::compile_smaller_part", delete("tier.warm_up()")),
        ),
        ("tests/cli/test_start.py",),
    ),
    one(
        "ids that wait while others take them over",
        "oncegate.index.claims.replay::_Replay.take",
        delete("if not isinstance(entry, Completed):\n    ..."),
        _GATHERED,
    ),
    one(
        "the row that an id left still counts it",
        "oncegate.index.claims.replay::_Replay._lose",
        delete("holders.slots[rows] -= losses.astype(np.int32)"),
        _GATHERED,
    ),
    one(
        "an id taken out of a dead row is not counted",
        "oncegate.index.claims.replay::_Replay._lose",
        delete("store.ids += revived"),
        _GATHERED,
    ),
    one(
        "what finds no room in its segment is left out",
        "oncegate.index.claims.replay::_Replay._grant",
        replace("added < len(ids)", "False"),
        _GATHERED,
    ),
    one(
        "a small ledger clears as much memory as a large one",
        "oncegate.index.table.bulk_insert::BulkInsert.__init__",
        replace("min(room, IDS_PER_SEGMENT_FIRST)", "room"),
        f"{_GATHERED}::test_room_is_taken_as_ids_come_so_that_a_small_ledger_clears_little_memory",
    ),
    one(
        "a small ledger is handed over as often as a large one",
        "oncegate.ledgers.log.opening.scan::_batches",
        replace("(batch, True)", "(batch, False)"),
        "tests/faults/ledger/test_read_ahead.py::test_a_small_ledger_is_handed_over_once",
    ),
    one(
        "the other thread's half is left out",
        "oncegate.index.table.bulk_insert::BulkInsert.insert",
        replace(
            "other.submit(self._insert, segments // 2, segments)", "other.submit(self._insert, segments, segments)"
        ),
        f"{_GATHERED}::test_two_threads_fold_what_one_would",
    ),
    one(
        "a slot that cannot be is passed over by one of the threads",
        "oncegate.index.claims.snapshot::_fill",
        replace("min((first for first in wrong if first is not None), default=None)", "wrong[0]"),
        _LOADING,
    ),
    one(
        "a loaded row does not count its slots",
        "oncegate.index.claims.snapshot::ClaimsReader.finish",
        delete("column('slots')[:] = named"),
        _LOADING,
    ),
    one(
        "a saved index out of order",
        "oncegate.ledgers.log.files.outputs::read_ranges",
        replace("waiting.popleft", "waiting.pop", nth=1),
        _READING,
    ),
    one(
        "all of a saved index read at once",
        "oncegate.ledgers.log.files.outputs::read_ranges",
        replace("len(waiting) > VERIFYING_THREADS", "False"),
        _READING,
    ),
    one(
        "checksums of a saved index are not verified",
        "oncegate.index.claims.snapshot::ClaimsReader.finish",
        delete("_check(self._sums_expected == self._sums, 'a piece is damaged or missing')"),
        _LOADING,
    ),
    one(
        "digests of the piece before",
        "oncegate.index.claims.snapshot::ClaimsReader._take_digests",
        replace(
            ("self._waiting.append(piece._replace(digests=_digests_of(self._store, piece.given, data)))"),
            ("self._waiting.insert(0, piece._replace(digests=_digests_of(self._store, piece.given, data)))"),
        ),
        _LOADING,
    ),
    one(
        "a first opening that found no descriptors is given up",
        "oncegate.engine.recovery.owner::Owner._failure",
        replace("is_shortage(error)", "False"),
        f"{_SHORTAGE}::test_a_first_opening_that_found_no_resources_is_tried_again_by_itself",
    ),
    one(
        "rebuilding in the threads that reading needs",
        "oncegate.engine.recovery.replay::replay",
        replace("loop.run_in_executor(thread, work)", "loop.run_in_executor(None, work)"),
        f"{_SHORTAGE}::test_rebuilding_takes_none_of_the_threads_that_reading_needs",
    ),
    one(
        "ledgers opened without a bound",
        "oncegate.engine.recovery.owner::Owner._open",
        replace("world.openings", "AsyncExitStack()"),
        f"{_SHORTAGE}::test_ledgers_are_opened_side_by_side_and_a_bounded_number_of_them",
    ),
    Mutant(
        "a strand that makes several calls at once",
        (
            ("oncegate.ledgers.log.strands::Strand.submit", replace("not self._due", "True")),
            (
                "oncegate.ledgers.log.strands::Strand._run",
                replace("self._busy or not self._waiting", "not self._waiting"),
            ),
        ),
        (f"{_MANY}::test_a_strand_makes_its_calls_in_order_one_at_a_time_and_strands_side_by_side",),
    ),
    one(
        "namespaces without a bound",
        "oncegate.engine.gateway::Gateway._made",
        replace("len(self._owners) >= self.limits.namespaces", "False"),
        f"{_DESCRIPTORS}::test_namespaces_beyond_the_descriptors_are_refused_and_the_same_limit_serves_again",
    ),
    one(
        "connections without a bound",
        "oncegate.transports.http.server.protocol::Protocol.connection_made",
        replace("beyond <= 0", "beyond <= 1 << 30"),
        f"{_DESCRIPTORS}::test_connections_beyond_the_descriptors_are_refused_and_nothing_else_suffers",
    ),
    one(
        "a dropped index keeps its address space",
        "oncegate.index.table.arrays::reserve",
        delete("gc.collect()"),
        _DROPPED,
    ),
    one(
        "an index is half as large after a collection",
        "oncegate.index.table.arrays::reserve",
        replace("range(13)", "range(1, 13)"),
        _DROPPED,
    ),
)
