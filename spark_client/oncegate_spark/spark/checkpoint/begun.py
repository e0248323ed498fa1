"""Reads a batch's input on the driver, when a writer is created for it, and warns if it is unknown."""

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
ELSEWHERE = f'{NO_CONTINUOUS}. Otherwise the checkpoint is elsewhere: .option("checkpointUrl", "…") names its folder'
REGISTERED = (
    "oncegate_spark.register(spark), which uses the session's Hadoop settings, or with "
    '.option("checkpointUrl", "<the same folder as an address of pyarrow.fs or WebHDFS>")'
)

NAMED = (
    '.option("checkpointLocation", "<a folder that outlives the query>"), or with a queryName below '
    "spark.sql.streaming.checkpointLocation and oncegate_spark.register(spark)"
)

log = logging.getLogger("oncegate_spark")
_said: set[str] = set()  # Spark may keep the process for later batches: warn only once


def placed(options: Options, settings: Mapping[str, str]) -> Options:
    """Returns the options with the checkpoint's full location: on the default file system if it names none.

    A query with a name and no checkpointLocation is below spark.sql.streaming.checkpointLocation.
    """
    below, query = settings.get(CHECKPOINTS), options.raw.get("queryname")
    location = options.checkpoint or (f"{below}/{query}" if below and query else None)
    if location is None:
        return options
    return replace(
        options, checkpoint=str(CheckpointLocation.of(location).within(settings.get("fs.defaultFS", DEFAULT_FS)))
    )


def begun(options: Options, settings: Mapping[str, str]) -> BatchInput | None:
    """Returns the input of the stream's batch that begins; None, with a warning, if it cannot be read.

    `options`: from `placed`. Raises BadOption if the write's own checkpoint contains no offsets.
    """
    if options.write != "staged" and not options.has_driver and local_folder(options.checkpoint) is None:
        return None  # rows recognised by their ids need no digest
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
    """Like `begun`, for a df.write, which may be inside foreachBatch and name the query's checkpoint."""
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
