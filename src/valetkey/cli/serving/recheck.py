"""Check whether new workers can use a changed configuration.

The supervisor runs this as a separate process before it replaces workers, and `valetkey reload`
before it sends the request to the supervisor.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from stat import S_IWOTH

from valetkey.cli import say
from valetkey.cli.say import Exit
from valetkey.config.agreement import Problem, missing_files, servers
from valetkey.config.catalogue import METRICS_LISTEN, PINNED, SHARED
from valetkey.config.environment import environment
from valetkey.config.load import OperatorErrors, load
from valetkey.config.paths import certificate_files, monitoring_token
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import OperatorError

_DECLARED = "valetkey.resource.objects.declared"


def fixed(settings: Settings, names: Sequence[str]) -> Mapping[str, str]:
    """Return the settings that stay fixed until a restart, as digests because some are secret."""
    return {METRICS_LISTEN: _digest(settings.metrics.listen)} | {
        f"{name}.{key}": _digest(getattr(server, key))
        for name, server in servers(settings)
        if name in names
        for key in (*PINNED, *SHARED)
        if hasattr(server, key)
    }


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()


def require_right(settings: Settings, before: Mapping[str, str]) -> None:
    """Raise OperatorError if workers could not start with these settings beside those before."""
    names = tuple({path.split(".")[0] for path in before})
    problems = (*missing_files(settings, names), *wrong_objects(settings))
    if problems:
        raise OperatorErrors(str(settings.source.file or "the configuration"), problems)
    monitoring_token(settings)
    if settings.traces.endpoint:
        import_module("valetkey.cli.serving.trace_export").require(settings)
    for name, server in servers(settings):
        if name in names and (files := certificate_files(settings, server)):
            import_module("valetkey.cli.serving.acme").prepare(settings, server)
            import_module("valetkey.web.listen").tls_context(*files)
    changed = changed_since(before, settings, SHARED)
    if changed:
        raise OperatorError(
            f"{', '.join(changed)}: changed, which needs a restart; nothing was reloaded"
        )


def needs_restart(before: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """Return the changed settings that a reload does not apply."""
    return changed_since(before, settings, PINNED)


def changed_since(
    before: Mapping[str, str], settings: Settings, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the paths of settings with these names that differ from `before`."""
    now = fixed(settings, ("authorization", "resource"))
    return tuple(
        path for path, was in before.items() if path.split(".")[1] in names and now[path] != was
    )


def wrong_objects(settings: Settings) -> Sequence[Problem]:
    """Return the problems of declared objects; their reader is loaded only if there are any."""
    if not settings.resource.objects:
        return ()
    folder = settings.source.directory / settings.resource.objects
    if folder.is_dir() and not folder.stat().st_mode & S_IWOTH and not any(folder.iterdir()):
        return ()
    problems: Sequence[Problem] = import_module(_DECLARED).read_directory(settings)[1]
    return problems


def main(file: str) -> int:
    """Compare with the settings on standard input; return 0 if workers may start."""
    before = json.loads(sys.stdin.buffer.read())
    try:
        settings = load(Path(file) if file else None, environment())
        require_right(settings, before)
    except OperatorError as error:
        say.error(f"reload refused, nothing was changed: {error}")
        return Exit.INVALID
    if waiting := needs_restart(before, settings):
        say.note(f"reloaded, except for what needs a restart: {', '.join(waiting)}")
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
