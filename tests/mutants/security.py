"""Planted bugs of keys and roles: who is let in, where, and for how long."""

from tests.mutants.mutant import Mutant, one

ACCESS = "service/oncegate/transports/access"
_ACCESS = "tests/transports/access/test_access.py"
_GIVEN = "tests/client/test_credentials.py"
_MATRIX = "tests/transports/http/test_access_matrix.py"

SECURITY: tuple[Mutant, ...] = (
    one(
        "whoever has a key may ack",
        f"{ACCESS}/access.py",
        "        if right.roles and not right.roles & self.roles:\n",
        "        if False:\n",
        f"{_ACCESS}::test_a_role_includes_no_other",
    ),
    one(
        "a key opens every namespace",
        f"{ACCESS}/access.py",
        "        return namespace is None or self.sees(namespace)\n",
        "        return True\n",
        f"{_ACCESS}::test_a_namespace_that_is_not_named_is_refused_whether_or_not_it_is_there",
    ),
    one(
        "a key of one namespace sees the metrics of all",
        f"{ACCESS}/access.py",
        "        if right.everywhere:\n",
        "        if False:\n",
        f"{_ACCESS}::test_what_is_about_all_namespaces_needs_a_key_for_all",
    ),
    one(
        "any secret under a known id",
        f"{ACCESS}/access.py",
        "        if parts is None or key is None or not key.fits(parts[1]):\n",
        "        if parts is None or key is None:\n",
        f"{_ACCESS}::test_a_wrong_secret_under_a_known_id_is_refused_also_after_the_right_one",
    ),
    one(
        "a revoked key is remembered",
        f"{ACCESS}/access.py",
        "            self._checked.clear()\n",
        "            pass\n",
        f"{_ACCESS}::test_a_revoked_key_is_refused_and_a_new_one_taken_a_second_later_without_a_restart",
    ),
    one(
        "wrong keys fill the memory",
        f"{ACCESS}/access.py",
        "        if len(self._checked) >= REMEMBERED_MAX:\n",
        "        if False:\n",
        f"{_ACCESS}::test_what_is_remembered_of_credentials_is_bounded",
    ),
    one(
        "a key costs scrypt each time",
        f"{ACCESS}/access.py",
        "        self._checked[mark] = found\n",
        "",
        f"{_ACCESS}::test_a_key_is_checked_by_scrypt_once",
    ),
    one(
        "every file of keys is readable for all",
        f"{ACCESS}/keys.py",
        "os.O_EXCL, 0o600)",
        "os.O_EXCL, 0o644)",
        f"{_ACCESS}::test_a_key_is_taken_and_the_file_holds_no_secret",
    ),
    one(
        "no route asks for a key",
        "service/oncegate/transports/http/taking.py",
        "        if access is not None:\n",
        "        if False:\n",
        f"{_MATRIX}::test_hot_routes_which_pass_the_framework_by_are_refused_as_all_others_are",
    ),
    one(
        "a tenant learns the names of all namespaces",
        "service/oncegate/transports/http/routes/service.py",
        "[name for name in names if principal.sees(name)]",
        "list(names)",
        f"{_MATRIX}::test_a_tenant_sees_the_names_of_its_own_namespaces_alone",
    ),
    one(
        "a client keeps its key to itself",
        "spark_client/oncegate_spark/sync/connection.py",
        "with_key(self._address, request.headers, self._credentials)",
        "dict(request.headers)",
        "tests/client/test_keys.py",
    ),
    one(
        "a client shows its key to the network",
        "spark_client/oncegate_spark/protocol/address.py",
        "    if not address.private:\n",
        "    if False:\n",
        "tests/client/test_keys.py",
    ),
    one(
        "a revoked key stays in the file",
        "service/oncegate/cli/keys/verbs.py",
        "[key for key in known.values() if key.id != key_id]",
        "known.values()",
        "tests/cli/test_keys.py",
    ),
    one(
        "reading the file of keys costs a scrypt for each",
        f"{ACCESS}/keys.py",
        "        for key in {(key.n, key.r, key.p): key for key in found}.values():\n",
        "        for key in found:\n",
        f"{_ACCESS}::test_a_file_of_many_keys_is_read_with_one_scrypt_for_all_that_are_made_alike",
    ),
    one(
        "a client shows a key that no header carries",
        "spark_client/oncegate_spark/protocol/address.py",
        "    if not _KEY.fullmatch(key):\n",
        "    if False:\n",
        "tests/client/test_keys.py::test_a_key_that_no_header_carries_is_refused_and_not_shown",
    ),
    one(
        "a gateway without keys makes its ledger before it refuses an address",
        "service/oncegate/app.py",
        "    allowed_address(process.host, is_guarded(process))\n",
        "",
        "tests/transports/http/test_access_matrix.py::test_what_may_not_be_listened_on_or_read_makes_no_ledger",
    ),
    one(
        "credentials show their key",
        "spark_client/oncegate_spark/credentials.py",
        "= field(default=None, repr=False)",
        "= field(default=None)",
        f"{_GIVEN}::test_a_key_is_shown_by_no_text_and_carried_by_no_pickle",
    ),
    one(
        "a key travels to the tasks in a pickle",
        "spark_client/oncegate_spark/credentials.py",
        '            raise TypeError("a key is never pickled',
        '            print("a key is never pickled',
        f"{_GIVEN}::test_a_key_is_shown_by_no_text_and_carried_by_no_pickle",
    ),
    one(
        "an option of Spark holds a key",
        "spark_client/oncegate_spark/spark/options/refusals.py",
        'if mode != "claim" and name.replace("_", "") in _KEYS:',
        "if False:",
        f"{_GIVEN}::test_an_option_that_would_hold_the_key_itself_is_refused_without_it",
    ),
    one(
        "an ack is sent without the key that its batch was written with",
        "spark_client/oncegate_spark/credentials.py",
        "for name in FILES if (path",
        "for name in () if (path",
        f"{_GIVEN}::test_an_ack_that_is_kept_knows_the_files_and_not_the_key",
    ),
    one(
        "a client that renews leases shows no key",
        "spark_client/oncegate_spark/sync/gateway.py",
        "            credentials=self.credentials,\n",
        "",
        f"{_GIVEN}::test_both_clients_send_the_key_that_they_are_given_and_take_a_new_one_from_its_file",
    ),
)
