"""What can only be collected where a package is installed that is an extra."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("sklearn") else ["src/wengert/sklearn"]
