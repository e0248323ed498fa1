"""Looks for a batch's input when a writer is made for it, and says then what stays unknown: on the driver."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from oncegate_spark.errors import BadOption
from oncegate_spark.spark import logs
from oncegate_spark.spark.checkpoint.hadoop import CHECKPOINTS, DEFAULT_FS, CheckpointLocation, local_folder
from oncegate_spark.spark.checkpoint.offset_log import BatchInput, NoOffsets, find_input
from oncegate_spark.spark.checkpoint.stores import OutOfReach
from oncegate_spark.spark.checkpoint.unknown import unknown
from oncegate_spark.spark.options import Options

NO_CONTINUOUS = 'Continuous mode does not work with this sink: use .trigger(processingTime="1 second")'
ELSEWHERE = (
    f'{NO_CONTINUOUS}. With another trigger Spark keeps it elsewhere: .option("checkpointUrl", "…") names that folder'
)
REGISTERED = (
    "oncegate_spark.register(spark), which takes over the session's Hadoop settings, or with "
    '.option("checkpointUrl", "<the same folder, as pyarrow.fs or WebHDFS names it>")'
)

NAMED = (
    '.option("checkpointLocation", "<a folder that outlives the query>"), or with a queryName below '
    "spark.sql.streaming.checkpointLocation and oncegate_spark.register(spark)"
)

log = logging.getLogger("oncegate_spark")
_said: set[str] = set()  # Spark may keep the process for the batches to come: once is enough


def placed(options: Options, settings: Mapping[str, str]) -> Options:
    """The options with the checkpoint's whole name: on the default file system where it names none, and below
    spark.sql.streaming.checkpointLocation where the query has a name and no checkpointLocation of its own.
    """
    below, query = settings.get(CHECKPOINTS), options.raw.get("queryname")
    location = options.checkpoint or (f"{below}/{query}" if below and query else None)
    if location is None:
        return options
    return replace(
        options, checkpoint=str(CheckpointLocation.of(location).within(settings.get("fs.defaultFS", DEFAULT_FS)))
    )


def begun(options: Options, settings: Mapping[str, str]) -> BatchInput | None:
    """The input of a stream's batch that begins; None, with a warning, where nobody could look.

    `options`: as `placed` returns them. Raises BadOption where the checkpoint that the write names holds no offsets.
    """
    if options.write != "staged" and not options.has_driver and local_folder(options.checkpoint) is None:
        return None  # rows that are known by their ids need no digest
    try:
        return find_input(options.checkpoint, settings, options.checkpoint_url)
    except NoOffsets as error:
        if options.checkpoint_url is not None or "checkpointlocation" in options.raw:
            raise BadOption(f"{error}. {ELSEWHERE}; nothing was written") from error
        _warn(options, str(error))
    except OutOfReach as error:
        _warn(options, str(error))
    return None


def begun_inside(options: Options, settings: Mapping[str, str]) -> BatchInput | None:
    """As `begun`, for a df.write, which may be inside foreachBatch: where it names the query's checkpoint."""
    if options.write != "staged" or (options.checkpoint is None and options.checkpoint_url is None):
        return None
    try:
        return find_input(options.checkpoint, settings, options.checkpoint_url)
    except NoOffsets as error:
        if options.app is None:
            raise BadOption(f"{error}: it is not the checkpoint of this batch's query; nothing was written") from error
    except OutOfReach as error:
        _warn(options, str(error))
    return None


def _warn(options: Options, why: str) -> None:
    way = NAMED if options.checkpoint is None and options.checkpoint_url is None else REGISTERED
    if options.write == "staged" and why not in _said:
        _said.add(why)
        logs.be_heard()
        log.warning(unknown(why, way))
