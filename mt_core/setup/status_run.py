"""One run of `freshtable status`, from its options to its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from mt_core.client.home import token_in, url_in
from mt_core.clock import Clock
from mt_core.errors import ConfigError
from mt_core.setup.status import FAULTS, WRITER, Measure, since_of, status_json, statuses
from mt_core.setup.status_options import StatusOptions

DEFAULT_GATEWAY = "http://127.0.0.1:8083"


def run_status(options: StatusOptions, clock: Clock, say: Callable[[str], object]) -> int:
    """Print the status of the gateways. Return 0 if all are healthy, and 1 if not.

    Raises ConfigError for an invalid option.
    """
    urls = list(dict.fromkeys(options.gateways or [url_in(options.home) or DEFAULT_GATEWAY]))
    timeout_s = options.duration("timeout").total_seconds()
    if not timeout_s:
        raise ConfigError("--timeout must be above 0; use for example --timeout '10 s'.")
    unknown = set(options.ignored or ()) - set(FAULTS)
    if unknown:
        raise ConfigError(
            f"--ignore: '{min(unknown)}' is not a cause of lateness; use one of {', '.join(FAULTS)}."
        )
    # If a source has no new data, for example because it is loaded at night, the gateway is not at fault.
    ignored = frozenset({*(options.ignored or ()), *(() if options.writer else (WRITER,))})
    measure = Measure(since=since_of(clock.now(), options.duration("since")), ignored=ignored)
    token = partial(token_in, options.home)
    gateways = statuses(urls, lambda url: options.token or token(url), measure, timeout_s)
    if options.json:
        say(json.dumps(status_json(gateways), ensure_ascii=False))
    else:
        for line in (line for each in gateways for line in each.lines()):
            say(line)
    return 0 if all(each.is_well for each in gateways) else 1
