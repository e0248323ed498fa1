"""Planted bugs of keys and roles: which caller is admitted, where, and for how long."""

from tests.mutants.edits import delete, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_ACCESS = "tests/transports/access/test_access.py"
_GIVEN = "tests/client/test_credentials.py"
_TLS = "tests/transports/test_tls.py"
_MATRIX = "tests/transports/http/test_access_matrix.py"

SECURITY: tuple[Mutant, ...] = (
    one(
        "every key may ack",
        "oncegate.transports.access.principal::Principal.may",
        replace("right.roles and (not right.roles & self.roles)", "False"),
        f"{_ACCESS}::test_a_role_includes_no_other",
    ),
    one(
        "a key opens every namespace",
        "oncegate.transports.access.principal::Principal.may",
        replace("namespace is None or self.sees(namespace)", "True"),
        f"{_ACCESS}::test_a_namespace_that_is_not_named_is_refused_whether_or_not_it_is_there",
    ),
    one(
        "a key of one namespace sees the metrics of all",
        "oncegate.transports.access.principal::Principal.may",
        replace("right.everywhere", "False"),
        f"{_ACCESS}::test_requests_about_all_namespaces_need_a_key_for_all",
    ),
    one(
        "any secret under a known id",
        "oncegate.transports.access.access::Access._check",
        replace("parts is None or key is None or (not key.fits(parts[1]))", "parts is None or key is None"),
        f"{_ACCESS}::test_a_wrong_secret_under_a_known_id_is_refused_also_after_the_right_one",
    ),
    one(
        "a revoked key is remembered",
        "oncegate.transports.access.access::Access._look",
        delete("self._checked.clear()"),
        f"{_ACCESS}::test_a_revoked_key_is_refused_and_a_new_one_taken_a_second_later_without_a_restart",
    ),
    one(
        "wrong keys fill the memory",
        "oncegate.transports.access.access::Access._remember",
        replace("len(self._checked) >= REMEMBERED_MAX", "False"),
        f"{_ACCESS}::test_remembered_credentials_are_bounded",
    ),
    one(
        "a key costs scrypt each time",
        "oncegate.transports.access.access::Access._remember",
        delete("self._checked[keyed_hash] = principal"),
        f"{_ACCESS}::test_a_key_is_checked_by_scrypt_once",
    ),
    one(
        "every file of keys is readable for all",
        "oncegate.transports.access.keys::write",
        replace(
            "os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 384)",
            "os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 420)",
        ),
        f"{_ACCESS}::test_a_key_is_taken_and_the_file_holds_no_secret",
    ),
    one(
        "no route asks for a key",
        "oncegate.transports.http.call::Call.check",
        replace("access is not None", "False"),
        f"{_MATRIX}::test_routes_are_refused_alike_past_the_framework_and_through_it",
    ),
    one(
        "a tenant learns the names of all namespaces",
        "oncegate.transports.http.routes.service::_seen",
        replace("[name for name in names if principal.sees(name)]", "list(names)"),
        f"{_MATRIX}::test_a_tenant_sees_the_names_of_its_own_namespaces_alone",
    ),
    one(
        "a client keeps its key to itself",
        "oncegate_spark.sync.connection::Connection.exchange",
        replace("with_key(self._address, request.headers, self._credentials)", "dict(request.headers)"),
        "tests/client/test_keys.py",
    ),
    one(
        "a client shows its key to the network",
        "oncegate_spark.protocol.address::with_key",
        replace("not address.private", "False"),
        "tests/client/test_keys.py",
    ),
    one(
        "a revoked key stays in the file",
        "oncegate.cli.keys::revoke",
        replace("[key for key in keys_of_file.values() if key.id != key_id]", "keys_of_file.values()"),
        "tests/cli/test_keys.py",
    ),
    one(
        "reading the file of keys costs a scrypt for each",
        "oncegate.transports.access.keys::read",
        replace("{(key.n, key.r, key.p): key for key in entries}.values()", "entries"),
        f"{_ACCESS}::test_a_file_of_many_keys_is_read_with_one_scrypt_for_all_that_are_made_alike",
    ),
    one(
        "a client shows a key that no header carries",
        "oncegate_spark.protocol.address::with_key",
        replace("not _KEY.fullmatch(key)", "False"),
        "tests/client/test_keys.py::test_a_key_that_no_header_carries_is_refused_and_not_shown",
    ),
    one(
        "a gateway without keys makes its ledger before it refuses an address",
        "oncegate.app::running",
        delete("allowed_address(...)"),
        "tests/transports/http/test_access_matrix.py::test_what_may_not_be_listened_on_or_read_makes_no_ledger",
    ),
    one(
        "credentials show their key",
        "oncegate_spark.credentials::Credentials.api_key",
        without("repr="),
        f"{_GIVEN}::test_a_key_is_shown_by_no_text_and_carried_by_no_pickle",
    ),
    one(
        "a key travels to the tasks in a pickle",
        "oncegate_spark.credentials::Credentials.__reduce__",
        replace_statement(
            (
                "raise TypeError('a key cannot be pickled: name its file with api_key_file, or set ONCEGATE_API_KEY there')"
            ),
            ("print('a key cannot be pickled: name its file with api_key_file, or set ONCEGATE_API_KEY there')"),
        ),
        f"{_GIVEN}::test_a_key_is_shown_by_no_text_and_carried_by_no_pickle",
    ),
    one(
        "an option of Spark holds a key",
        "oncegate_spark.spark.options.refusals::_check_stranger",
        replace("mode != 'claim' and name.replace('_', '') in _KEYS", "False"),
        f"{_GIVEN}::test_an_option_that_would_hold_the_key_itself_is_refused_without_it",
    ),
    one(
        "an ack is sent without the key that its batch was written with",
        "oncegate_spark.credentials::Credentials.files",
        replace("FILES", "()"),
        f"{_GIVEN}::test_an_ack_that_is_kept_knows_the_files_and_not_the_key",
    ),
    one(
        "a client that renews leases shows no key",
        "oncegate_spark.sync.gateway::Gateway.twin",
        without("credentials="),
        f"{_GIVEN}::test_both_clients_send_the_key_that_they_are_given_and_take_a_new_one_from_its_file",
    ),
    one(
        "callers of TLS need no certificate",
        "oncegate.transports.tls::_made",
        delete("context.verify_mode = ssl.CERT_REQUIRED"),
        f"{_TLS}::test_both_doors_take_only_callers_of_the_authority_that_their_files_name_now",
    ),
    one(
        "a renewed certificate waits for a restart",
        "oncegate.transports.tls::Tls._look",
        replace("version == self._version", "True"),
        f"{_TLS}::test_both_doors_take_only_callers_of_the_authority_that_their_files_name_now",
    ),
    one(
        "gRPC keeps the certificate of its start",
        "oncegate.transports.grpc.server::_secured",
        replace_statement(
            "def newest() -> Any:\n    return _configuration(tls.pem())",
            "pem = tls.pem()\ndef newest() -> Any:\n    return _configuration(pem)",
        ),
        f"{_TLS}::test_both_doors_take_only_callers_of_the_authority_that_their_files_name_now",
    ),
    one(
        "gRPC takes callers without a certificate",
        "oncegate.transports.grpc.server::_secured",
        replace("tls.asks_callers", "False"),
        f"{_TLS}::test_both_doors_take_only_callers_of_the_authority_that_their_files_name_now",
    ),
    one(
        "an older TLS is spoken",
        "oncegate.transports.tls::_made",
        delete("context.minimum_version = ssl.TLSVersion.TLSv1_3"),
        f"{_TLS}::test_both_clients_write_and_read_over_tls_bodies_of_any_size",
    ),
    one(
        "a handshake may take for ever",
        "oncegate.transports.http.server.protocol::HttpServer.startup",
        without("'ssl_handshake_timeout'"),
        f"{_TLS}::test_a_handshake_that_does_not_end_is_cut_off",
    ),
    one(
        "a stop waits for clients that sleep on a connection of TLS",
        "oncegate.transports.http.server.protocol::HttpServer.startup",
        without("'ssl_shutdown_timeout'"),
        f"{_TLS}::test_both_clients_write_and_read_over_tls_bodies_of_any_size",
    ),
    one(
        "a verb shows its key to the network",
        "oncegate.verifier.address::check_private",
        replace("not private", "False"),
        "tests/cli/test_requests.py",
    ),
)
