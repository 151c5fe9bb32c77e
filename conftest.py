"""What pytest is not to collect: what needs an extra that is missing, and the site's scripts."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("sklearn") else ["src/wengert/sklearn"]
# Programs that tests/test_site.py runs, and pages that a build of the site has made.
collect_ignore_glob = ["docs/*.py", "docs/gallery/*", "docs/api/*"]
