"""Replaces a Spark DataFrame in tests without Spark."""


class Frame:
    """The part of a DataFrame that `foreach_batch` uses."""

    class sparkSession:
        class conf:
            @staticmethod
            def set(name: str, value: str) -> None: ...

            @staticmethod
            def unset(name: str) -> None: ...

        class sparkContext:
            @staticmethod
            def getLocalProperty(name: str) -> str | None:
                return None
