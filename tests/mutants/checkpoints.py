"""More planted bugs: the location of a query's checkpoint, and the warnings about one that cannot be read; see
`planted`."""

from tests.mutants.edits import replace, replace_statement
from tests.mutants.mutant import Mutant, one

_STORES = "tests/client/spark/test_checkpoint_stores.py"
_SPARK = "tests/spark/test_checkpoint_places.py"

CHECKPOINTS: tuple[Mutant, ...] = (
    one(
        "a batch begins without a look at its input",
        "oncegate_spark.spark.datasource::OncegateSource.streamWriter",
        replace("begun(options, self._settings())", "None"),
        f"{_SPARK}::test_hdfs_is_read_through_webhdfs",
    ),
    one(
        "a checkpoint in a bucket is out of reach",
        "oncegate_spark.spark.checkpoint.stores::OPENERS",
        replace(
            (
                "{**dict.fromkeys(('s3a', 's3', 's3n'), of_s3), **dict.fromkeys(('gs', "
                "'gcs'), of_gcs), **dict.fromkeys(('abfs', 'abfss', 'wasb', 'wasbs'), "
                "of_azure), **dict.fromkeys(('hdfs', 'webhdfs', 'swebhdfs'), "
                "webhdfs.of_hdfs)}"
            ),
            (
                "{**dict.fromkeys(('gs', 'gcs'), of_gcs), **dict.fromkeys(('abfs', "
                "'abfss', 'wasb', 'wasbs'), of_azure), **dict.fromkeys(('hdfs', "
                "'webhdfs', 'swebhdfs'), webhdfs.of_hdfs)}"
            ),
        ),
        f"{_STORES}::test_a_bucket_is_read_with_the_settings_of_s3a",
    ),
    one(
        "a folder's name is decoded as an address is",
        "oncegate_spark.spark.checkpoint.hadoop::CheckpointLocation.of",
        replace_statement(
            "return cls(scheme, authority, _normal(rest))",
            ("from urllib.parse import unquote\nreturn cls(scheme, authority, _normal(unquote(rest)))"),
        ),
        "tests/client/spark/test_checkpoint_and_marks.py::"
        "test_a_folder_is_named_as_spark_names_it_with_nothing_escaped",
    ),
    one(
        "the default file system is the driver's disk",
        "oncegate_spark.spark.checkpoint.stores::open_store",
        replace("settings.get('fs.defaultFS', DEFAULT_FS)", "DEFAULT_FS"),
        f"{_STORES}::test_hdfs_is_read_by_its_rest_interface",
    ),
    one(
        "a wrong location is taken for one that cannot be read",
        "oncegate_spark.spark.checkpoint.begun::begun",
        replace("options.checkpoint_url is not None or 'checkpointlocation' in options.raw", "False"),
        "tests/client/spark/test_datasource.py::test_a_checkpoint_without_offsets_is_no_micro_batch",
        f"{_SPARK}::test_a_wrong_location_is_reported_before_the_first_batch",
    ),
    one(
        "another query's checkpoint is taken for its own",
        "oncegate_spark.spark.task_identity::input_of",
        replace("task.query and read.query and (read.query != task.query)", "False"),
        "tests/client/spark/test_staged_commit.py::test_reading_another_querys_checkpoint_stops_the_task",
    ),
    one(
        "an input that stays unknown is not reported",
        "oncegate_spark.spark.checkpoint.begun::_warn",
        replace("options.write == 'staged' and why not in _said", "False"),
        f"{_STORES}::test_the_place_is_found_without_an_option",
    ),
    one(
        "the writer of a commit looks again",
        "oncegate_spark.spark.datasource::OncegateSource.streamWriter",
        replace("self.is_carried", "False"),
        f"{_STORES}::test_the_writer_of_a_commit_reads_nothing_again",
    ),
    one(
        "a write inside foreachBatch passes over the checkpoint it names",
        "oncegate_spark.spark.datasource::OncegateSource.writer",
        replace("begun_inside(options, self._settings())", "None"),
        f"{_SPARK}::test_the_input_is_known_inside_foreach_batch",
    ),
    one(
        "an error reveals the keys in an address",
        "oncegate_spark.spark.checkpoint.stores::open_url",
        replace("parts.netloc.rpartition('@')[2]", "parts.netloc"),
        f"{_STORES}::test_no_error_contains_a_key",
    ),
)
