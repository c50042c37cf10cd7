"""The program: `python -m volcanic.supervisor`. A shell over `volcanic.hosts.service`.

(The engine that keeps its processes alive is the package `supervisors`, plural.)
"""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    # Until the launcher takes over, Ctrl-C ends the process without a word instead of with a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import click

from volcanic.config import SETTINGS, ConfigError, SettingDoc, load

USAGE = 2
INTERRUPTED = 130


def _option(setting: SettingDoc) -> click.Option:
    text = f"{setting.meaning}.  [{setting.env}; default: {setting.default}]"
    name = setting.flag.removeprefix("--").replace("-", "_")
    if setting.switch:
        return click.Option([setting.flag, name], is_flag=True, default=False, help=text)
    return click.Option([setting.flag, name], multiple=setting.repeats, help=text)


def serve(**options: object) -> None:
    """Serve the assistant in one or more folders to other agents over A2A 1.0, until told to stop.

    Every setting can also be written as an environment variable or in volcanic.toml; README lists them all.
    """
    flags = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    try:
        settings = load(flags, os.environ, os.getcwd())  # noqa: PTH109 - paths are text on this layer
    except ConfigError as error:
        print(f"volcanic: {error}", file=sys.stderr)  # noqa: T201 - for the person who started it
        sys.exit(USAGE)
    from volcanic.hosts.service import run  # a wrong flag is answered without loading the service

    sys.exit(run(settings))


def _others() -> str:
    """Return the settings without a flag, for the end of the help."""
    rows = [
        (setting.env, f"{setting.meaning} (default: {setting.default})") for setting in SETTINGS if not setting.flag
    ]
    formatter = click.HelpFormatter(max_width=110)
    with formatter.section("Settings without a flag (environment, or volcanic.toml)"):
        formatter.write_dl(rows)
    return formatter.getvalue()


class _Command(click.Command):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's form
        formatter.write(f"\n{_others()}")


main = _Command(
    "volcanic.supervisor",
    params=[_option(setting) for setting in SETTINGS if setting.flag],
    callback=serve,
    help=serve.__doc__,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def run() -> None:
    """Run the program; a wrong flag is one line and exit status 2, like every other start that says no."""
    try:
        main.main(standalone_mode=False)
    except click.ClickException as error:
        print(f"volcanic: {error.format_message()}", file=sys.stderr)  # noqa: T201 - for the person who started it
        sys.exit(USAGE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
