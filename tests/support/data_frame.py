"""Stands in for a DataFrame of Spark where no Spark is wanted."""


class Frame:
    """As much of a DataFrame as `foreach_batch` looks at."""

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
