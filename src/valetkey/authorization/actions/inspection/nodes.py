"""Checks of the nodes that run and of the last backup, by the clock of the database."""

from valetkey.authorization.actions.inspection.check import (
    BACKUPS,
    NODES,
    At,
    Condition,
    DatabaseCheck,
    Findings,
    Installation,
    Level,
    moment,
)
from valetkey.authorization.actions.inspection.machine import clock_of, own_database
from valetkey.authorization.storage.nodes import BackupKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days, hours
from valetkey.kernel.text import translatable

_MOST_NAMED = 20
_UPGRADE = hours(1)
_OLD = days(7)
_NODES_PAGE = "how-to/operate/add-a-node"
_BACKUP_PAGE = "how-to/operate/back-up-and-restore"

NO_NODE = Condition(
    "no_node",
    Level.OK,
    "nodes",
    translatable("No running node is known."),
    is_neutral=True,
)
NODES_RUNNING = Condition("nodes_running", Level.OK, "nodes", translatable("%(count)s running."))
NODE_SEEN = Condition(
    "node_seen",
    Level.OK,
    "node %(node)s",
    translatable("%(node)s: version %(version)s, last seen %(at)s."),
)
NODE_MISSING = Condition(
    "node_missing",
    Level.WARNING,
    "node %(node)s",
    translatable("The node %(node)s was not stopped, and has not been seen since %(at)s."),
    translatable(
        "Check its machine and its log, and start it again. A node that does not come back is "
        "forgotten after a day."
    ),
    page=_NODES_PAGE,
)
VERSIONS = Condition(
    "node_versions",
    Level.WARNING,
    "nodes",
    translatable("The nodes run different versions: %(versions)s."),
    translatable("Upgrade the nodes with the older version."),
    page="how-to/operate/upgrade",
)
VERSIONS_CHANGE = VERSIONS.as_good("node_versions_change")

NO_BACKUP = Condition(
    "no_backup",
    Level.OK,
    "backup",
    translatable(
        "No backup has been made with this server's command. Other programs may make backups."
    ),
    command="valetkey database backup DIRECTORY",
    is_neutral=True,
)
NO_BACKUP_RECORDED = Condition(
    "no_backup_recorded",
    Level.OK,
    "backup",
    translatable("No backup has been recorded."),
    translatable("Make backups with pg_dump or another program of PostgreSQL. After each, run:"),
    "valetkey database backup --record",
    page=_BACKUP_PAGE,
    is_neutral=True,
)
BACKUP_MADE = Condition(
    "backup_made", Level.OK, "backup", translatable("Last backup: %(at)s, %(size)s MiB.")
)
BACKUP_RECORDED = Condition(
    "backup_recorded",
    Level.OK,
    "backup",
    translatable("Last backup, as recorded: %(at)s, made by another program."),
)
BACKUP_BEFORE = Condition(
    "backup_before",
    Level.OK,
    "backup",
    translatable("No backup since the database was restored. The last one before: %(at)s."),
    is_neutral=True,
)
BACKUP_OLD = Condition(
    "backup_old",
    Level.WARNING,
    "backup",
    translatable("The last backup is old: %(at)s."),
    translatable("Make a new one. If another program makes backups, run this after each:"),
    "valetkey database backup --record",
    page=_BACKUP_PAGE,
)


def nodes(tx: Transaction, installation: Installation) -> Findings:
    """Name the nodes that run, those that disappeared, and their versions if they differ."""
    now = clock_of(tx.db, own_database(installation.settings), installation.now)
    all_nodes = tx.nodes.list(now)
    running = [node for node in all_nodes if node.is_running(now)]
    yield NODES_RUNNING.finding(count=len(running)) if running else NO_NODE.finding()
    for node in running[:_MOST_NAMED]:
        yield NODE_SEEN.finding(node=node.name, version=node.version, at=At(node.seen_at))
    missing = [node for node in all_nodes if not node.is_running(now)]
    for node in missing[:_MOST_NAMED]:
        yield NODE_MISSING.finding(node=node.name, at=moment(node.seen_at))
    versions = sorted({node.version for node in running})
    if len(versions) > 1:
        # During an upgrade they differ.
        settled = now - max(node.started_at for node in running) > _UPGRADE
        condition = VERSIONS if settled else VERSIONS_CHANGE
        yield condition.finding(versions=", ".join(versions))


def backup(tx: Transaction, installation: Installation) -> Findings:
    """Say when the last known backup was finished."""
    last = tx.backups.last()
    if last is None:
        is_file = own_database(installation.settings).is_file
        yield (NO_BACKUP if is_file else NO_BACKUP_RECORDED).finding()
        return
    at = At(last.finished_at)
    now = clock_of(tx.db, own_database(installation.settings), installation.now)
    if not tx.backups.is_of_now(last):
        yield BACKUP_BEFORE.finding(at=at)
    elif now - last.finished_at > _OLD:
        yield BACKUP_OLD.finding(at=at)
    elif last.kind is BackupKind.RECORDED:
        yield BACKUP_RECORDED.finding(at=at)
    else:
        yield BACKUP_MADE.finding(at=at, size=f"{last.bytes / (1 << 20):.1f}")


CHECKS = (
    DatabaseCheck(
        "nodes",
        nodes,
        (NO_NODE, NODES_RUNNING, NODE_SEEN, NODE_MISSING, VERSIONS, VERSIONS_CHANGE),
        NODES,
    ),
    DatabaseCheck(
        "backup",
        backup,
        (NO_BACKUP, NO_BACKUP_RECORDED, BACKUP_MADE, BACKUP_RECORDED, BACKUP_BEFORE, BACKUP_OLD),
        BACKUPS,
    ),
)
