"""Planted bugs of a start: what it leaves out, and how it reads a ledger."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import INDEX, LOG

_CODEC = "service/oncegate/core/entries/codec.py"
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
_SETUP = "scripts/setup.sh"
_SETTING_UP = "tests/meta/test_setup.py"

STARTING: tuple[Mutant, ...] = (
    one(
        "a variable that is no setting is passed over",
        "service/oncegate/settings.py",
        "    for reason in unusable(os.environ, names(), given):\n",
        "    for reason in ():\n",
        f"{_SETTINGS}::test_a_variable_that_is_no_setting_is_refused_by_its_name",
    ),
    one(
        "the line of a server that is away names its URL twice",
        "service/oncegate/ledgers/redis/connection.py",
        '    said = str(error).removeprefix(address.shown).removeprefix(":").strip()\n',
        "    said = str(error)\n",
        "tests/faults/redis/test_served.py::test_without_a_server_or_a_witness_a_start_ends_with_one_line",
    ),
    one(
        "a probe does not say why a namespace is down",
        "service/oncegate/transports/health.py",
        '    return f" ({reason})" if reason else ""\n',
        '    return ""\n',
        f"{_AWAY}::test_a_ledger_that_is_away_is_told_and_serves_again_without_a_new_opening",
    ),
    one(
        "a password in an error is told to who probes",
        "service/oncegate/engine/failures.py",
        '    text = _PASSWORDS.sub("***", " ".join(str(error).split()) or repr(error))\n',
        '    text = " ".join(str(error).split()) or repr(error)\n',
        f"{_AWAY}::test_a_ledger_that_is_away_is_told_and_serves_again_without_a_new_opening",
    ),
    one(
        "a folder that was moved is told by the next append alone",
        f"{LOG}/ledger.py",
        "            self._ended = self._writer.die(error)\n",
        "            self._writer.die(error)\n",
        f"{_MOVED}::test_an_append_that_is_under_way_when_its_folder_is_moved_tells_its_own_end",
    ),
    one(
        "a look at the folder tells that an append was not written which is under way",
        f"{LOG}/ledger.py",
        "        if self._ended is not None and not self._appending:\n",
        "        if self._ended is not None:\n",
        f"{_MOVED}::test_an_append_that_is_under_way_when_its_folder_is_moved_tells_its_own_end",
    ),
    one(
        "a password in the URL of brokers is shown",
        "service/oncegate/ledgers/kafka/address.py",
        '        shown = without_passwords(f"kafka:{where}")\n',
        '        shown = f"kafka:{where}"\n',
        "tests/cli/test_verbs.py::test_a_password_in_the_url_of_a_ledger_is_never_shown",
    ),
    one(
        "a password in the URL of a ledger is shown among the settings",
        "service/oncegate/cli/config.py",
        '    return replace(one, value=without_passwords(str(one.value))) if one.name == "ledger" else one\n',
        "    return one\n",
        "tests/cli/test_verbs.py::test_a_password_in_the_url_of_a_ledger_is_never_shown",
    ),
    one(
        "a start that is refused leaves its new data folder",
        "service/oncegate/ledgers/log/ledgers.py",
        "        if is_new and not ledgers.is_used:\n",
        "        if False:\n",
        "tests/transports/http/test_serve.py::test_a_start_that_is_refused_leaves_no_data_folder_of_its_own",
    ),
    one(
        "a new data folder is removed though its ledger was opened",
        "service/oncegate/ledgers/log/ledgers.py",
        "        if is_new and not ledgers.is_used:\n",
        "        if is_new:\n",
        "tests/faults/ledger/test_data_dir.py::test_a_new_folder_whose_ledger_was_opened_stays_whatever_ends_it",
    ),
    one(
        "service links of Kubernetes are taken for misspelt settings",
        "service/oncegate/variables.py",
        "if name not in known and not _is_link(name, value)]",
        "if name not in known]",
        f"{_SETTINGS}::test_what_kubernetes_and_clients_put_into_the_environment_is_no_misspelt_setting",
    ),
    one(
        "an unknown tag that changes the meaning is passed over",
        _CODEC,
        "        elif number < INFORMS:\n",
        "        elif False:\n",
        _ENTRIES,
    ),
    one("a tag may come twice", _CODEC, "        if number <= last:\n", "        if number < last:\n", _ENTRIES),
    one(
        "an unknown tag that only informs is refused",
        _CODEC,
        "        elif number < INFORMS:\n",
        "        else:\n",
        _ENTRIES,
    ),
    one(
        "an entry of another version is read",
        _CODEC,
        "    if data[1] != VERSION:\n",
        "    if data[1] > VERSION:\n",
        _ENTRIES,
        "tests/engine/recovery/test_replay.py",
    ),
    one(
        "a start with pandas",
        "service/oncegate/__main__.py",
        "    sys.meta_path.insert(0, WithoutPandas())\n",
        "",
        "tests/cli/test_start.py",
    ),
    one(
        "a start that can keep no kernels ends",
        "service/oncegate/compilation.py",
        '        if "no locator available" not in str(error):\n            raise\n',
        "        raise\n",
        "tests/cli/test_read_only.py",
    ),
    one(
        "kernels that can be read are compiled again",
        "service/oncegate/runtime/kernel_cache.py",
        "                _copy(source, fallback / name)\n",
        "                pass\n",
        "tests/cli/test_read_only.py",
    ),
    one(
        "a set-up asks for a Java that apt only refers to",
        _SETUP,
        """    LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'\n""",
        '    apt-cache show "$1" >/dev/null 2>&1\n',
        _SETTING_UP,
    ),
    one("Java 8 is version 1", _SETUP, "\\(1\\.\\)\\{0,1\\}\\([0-9]*\\).*/\\2/p", "\\([0-9]*\\).*/\\1/p", _SETTING_UP),
    one(
        "a set-up makes an environment by the Python of the one that it replaces",
        _SETUP,
        "\nleave_venv\n",
        "\n",
        _SETTING_UP,
    ),
    one(
        "a set-up without network loses the environment",
        _SETUP,
        '    if [ -d "$VENV.before" ]; then mv "$VENV.before" "$VENV"; fi\n',
        "",
        _SETTING_UP,
    ),
    one(
        "a set-up without network takes no wheels",
        _SETUP,
        '    if [ -d "$WHEELS" ]; then\n',
        "    if false; then\n",
        _SETTING_UP,
    ),
    one(
        "wheels that lack a package stop a set-up",
        _SETUP,
        'if packages --no-index --find-links "$WHEELS" 2>/dev/null; then return; fi',
        'packages --no-index --find-links "$WHEELS" 2>/dev/null || return',
        _SETTING_UP,
    ),
    one(
        "one process compiles all kernels",
        "service/oncegate/app.py",
        "    _warm_decoding()\n    tier.warm_up()\n",
        "",
        "tests/cli/test_start.py",
    ),
    one(
        "ids that wait while others take them over",
        f"{INDEX}/claims/replay.py",
        "        if not isinstance(entry, Completed):\n            self.insert_waiting()\n",
        "",
        _GATHERED,
    ),
    one(
        "the row that an id left still counts it",
        f"{INDEX}/claims/replay.py",
        "        holders.slots[rows] -= losses.astype(np.int32)\n",
        "",
        _GATHERED,
    ),
    one(
        "an id taken out of a dead row is not counted",
        f"{INDEX}/claims/replay.py",
        "        store.ids += revived\n",
        "",
        _GATHERED,
    ),
    one(
        "what finds no room in its segment is left out",
        f"{INDEX}/claims/replay.py",
        "        while added < len(ids):\n",
        "        while False:\n",
        _GATHERED,
    ),
    one(
        "a small ledger clears as much memory as a large one",
        f"{INDEX}/table/bulk_insert.py",
        "self._room_for(min(room, IDS_PER_SEGMENT_FIRST))",
        "self._room_for(room)",
        f"{_GATHERED}::test_room_is_taken_as_ids_come_so_that_a_small_ledger_clears_little_memory",
    ),
    one(
        "a small ledger is handed over as often as a large one",
        f"{LOG}/opening/read_ahead.py",
        "            yield batch, True\n",
        "            yield batch, False\n",
        "tests/faults/ledger/test_read_ahead.py::test_a_small_ledger_is_handed_over_once",
    ),
    one(
        "the other thread's half is left out",
        f"{INDEX}/table/bulk_insert.py",
        "other.submit(self._insert, segments // 2, segments)",
        "other.submit(self._insert, segments, segments)",
        f"{_GATHERED}::test_two_threads_fold_what_one_would",
    ),
    one(
        "a slot that cannot be is passed over by one of the threads",
        f"{INDEX}/snapshot/claims_reader.py",
        "    return min((first for first in wrong if first is not None), default=None)\n",
        "    return wrong[0]\n",
        _LOADING,
    ),
    one(
        "a loaded row does not count its slots",
        f"{INDEX}/snapshot/claims_reader.py",
        '        column("slots")[:] = named\n',
        "",
        _LOADING,
    ),
    one(
        "a saved index out of order",
        f"{LOG}/files/outputs.py",
        "            if len(waiting) > VERIFYING_THREADS:\n                yield waiting.popleft().result()\n",
        "            if len(waiting) > VERIFYING_THREADS:\n                yield waiting.pop().result()\n",
        _READING,
    ),
    one(
        "all of a saved index read at once",
        f"{LOG}/files/outputs.py",
        "            if len(waiting) > VERIFYING_THREADS:\n",
        "            if False:\n",
        _READING,
    ),
    one(
        "sums of a saved index that nobody looks at",
        f"{INDEX}/snapshot/claims_reader.py",
        '        _check(self._sums_expected == self._sums, "a piece is damaged or missing")\n',
        "",
        _LOADING,
    ),
    one(
        "digests of the piece before",
        f"{INDEX}/snapshot/claims_reader.py",
        "        piece = self._waiting.pop()\n        self._waiting.append(",
        "        piece = self._waiting.pop()\n        self._waiting.insert(0, ",
        _LOADING,
    ),
    one(
        "a first opening that found no descriptors is given up",
        "service/oncegate/engine/recovery/owner.py",
        "        return is_shortage(error) or (self._has_served",
        "        return False or (self._has_served",
        f"{_SHORTAGE}::test_a_first_opening_that_found_no_resources_is_tried_again_by_itself",
    ),
    one(
        "rebuilding in the threads that reading needs",
        "service/oncegate/engine/recovery/replay.py",
        "        return await loop.run_in_executor(thread, work)\n",
        "        return await loop.run_in_executor(None, work)\n",
        f"{_SHORTAGE}::test_rebuilding_takes_none_of_the_threads_that_reading_needs",
    ),
    one(
        "ledgers opened without a bound",
        "service/oncegate/engine/recovery/owner.py",
        "            async with world.openings:\n",
        "            async with AsyncExitStack():\n",
        f"{_SHORTAGE}::test_ledgers_are_opened_side_by_side_and_a_bounded_number_of_them",
    ),
    Mutant(
        "a strand that makes several calls at once",
        (
            (f"{LOG}/strands.py", "            if not self._due:\n", "            if True:\n"),
            (f"{LOG}/strands.py", "            if self._busy or not", "            if not"),
        ),
        (f"{_MANY}::test_a_strand_makes_its_calls_in_order_one_at_a_time_and_strands_side_by_side",),
    ),
    one(
        "namespaces without a bound",
        "service/oncegate/engine/gateway.py",
        "                if len(self._owners) >= self.limits.namespaces:\n",
        "                if False:\n",
        f"{_DESCRIPTORS}::test_namespaces_beyond_the_descriptors_are_refused_and_the_same_limit_serves_again",
    ),
    one(
        "connections without a bound",
        "service/oncegate/transports/http/server/protocol.py",
        "        if beyond <= 0:\n",
        "        if beyond <= 1 << 30:\n",
        f"{_DESCRIPTORS}::test_connections_beyond_the_descriptors_are_refused_and_nothing_else_suffers",
    ),
)
