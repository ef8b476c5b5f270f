"""Paths and URLs."""


def is_url(path: str) -> bool:
    """Tell URLs from paths.

    path (str): A path or URL.
    RETURNS (bool): Whether it names a file system, as in "s3://bucket/key".
    """
    return "://" in path


def without_query(path: str) -> str:
    """Leave out what a URL says of how to reach its file system.

    path (str): A path or URL.
    RETURNS (str): The URL up to its question mark. A path stays as it is.
    """
    return path.partition("?")[0] if is_url(path) else path
