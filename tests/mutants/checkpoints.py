"""More planted bugs: where a query's checkpoint is read, and what is said where nobody could look; see `planted`."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

_CHECKPOINT = f"{CLIENT}/spark/checkpoint"
_STORES = "tests/client/spark/test_checkpoint_stores.py"
_SPARK = "tests/spark/test_checkpoint_places.py"

CHECKPOINTS: tuple[Mutant, ...] = (
    one(
        "a batch begins without a look at its input",
        f"{CLIENT}/spark/datasource.py",
        "        read = begun(options, self._settings())\n",
        "        read = None\n",
        f"{_SPARK}::test_hdfs_is_read_through_webhdfs",
    ),
    one(
        "a checkpoint in a bucket is out of reach",
        f"{_CHECKPOINT}/stores.py",
        '    **dict.fromkeys(("s3a", "s3", "s3n"), objects.of_s3),\n',
        "",
        f"{_STORES}::test_a_bucket_is_read_with_the_settings_of_s3a",
    ),
    one(
        "a folder's name is decoded as an address is",
        f"{_CHECKPOINT}/places.py",
        "        return cls(scheme, authority, _normal(rest))\n",
        "        from urllib.parse import unquote\n\n        return cls(scheme, authority, _normal(unquote(rest)))\n",
        "tests/client/spark/test_checkpoint_and_marks.py::"
        "test_a_folder_is_named_as_spark_names_it_with_nothing_escaped",
    ),
    one(
        "the default file system is the driver's disk",
        f"{_CHECKPOINT}/stores.py",
        '    place = place.within(settings.get("fs.defaultFS", DEFAULT_FS))\n',
        "    place = place.within(DEFAULT_FS)\n",
        f"{_STORES}::test_hdfs_is_read_by_its_rest_interface",
    ),
    one(
        "a wrong place is taken for one that nobody could look into",
        f"{_CHECKPOINT}/begun.py",
        '        if options.checkpoint_url is not None or "checkpointlocation" in options.raw:\n',
        "        if False:\n",
        "tests/client/spark/test_datasource.py::test_a_checkpoint_without_offsets_is_no_micro_batch",
        f"{_SPARK}::test_a_wrong_place_is_told_before_the_first_batch",
    ),
    one(
        "another query's checkpoint is taken for its own",
        f"{CLIENT}/spark/task_identity.py",
        "    if task.query and read.query and read.query != task.query:\n",
        "    if False:\n",
        "tests/client/spark/test_staged_commit.py::test_what_is_read_of_another_querys_checkpoint_stops_the_task",
    ),
    one(
        "what stays unknown is said by nobody",
        f"{_CHECKPOINT}/begun.py",
        '    if options.write == "staged" and why not in _said:\n',
        "    if False:\n",
        f"{_STORES}::test_the_place_is_found_without_an_option",
    ),
    one(
        "the writer of a commit looks again",
        f"{CLIENT}/spark/datasource.py",
        "        if self.is_carried:\n",
        "        if False:\n",
        f"{_STORES}::test_the_writer_of_a_commit_reads_nothing_again",
    ),
    one(
        "a write inside foreachBatch passes over the checkpoint it names",
        f"{CLIENT}/spark/datasource.py",
        "        read = begun_inside(options, self._settings())\n",
        "        read = None\n",
        f"{_SPARK}::test_the_input_is_known_inside_foreach_batch",
    ),
    one(
        "an error tells the keys of an address",
        f"{_CHECKPOINT}/stores.py",
        "{parts.netloc.rpartition('@')[2]}",
        "{parts.netloc}",
        f"{_STORES}::test_no_error_tells_a_key",
    ),
)
