"""The page of the admin API: its operations and what each needs, from the table behind them."""

from collections.abc import Iterator

from valetkey.authorization.deeds.admin.permissions import MAY, Permission
from valetkey.authorization.endpoints.admin_api.operation import PREFIX, Operation
from valetkey.authorization.endpoints.admin_api.routes import OPENAPI
from valetkey.authorization.endpoints.admin_api.table import AREAS


def admin_api() -> Iterator[str]:
    """Manners, permissions, and a table for each area."""
    yield "# Admin API"
    yield (
        "What the pages of administration do, for programs. Every path begins with\n"
        f"`{PREFIX}`. The document for programs (OpenAPI 3.1) is at\n"
        f"`{OPENAPI}`. How to begin:\n"
        "[automate administration](../how-to/operate/automate-administration.md)."
    )
    yield (
        "- `Authorization: Bearer vka_…`, and nothing else: no cookie opens it.\n"
        "- Bodies are JSON of at most 1 MiB, read strictly: an unknown member is an error.\n"
        "- Errors are problem documents (RFC 9457). `errors` names wrong fields by JSON pointer;\n"
        "  `reference` is what `valetkey explain` takes.\n"
        "- Lists have `limit` and `after`; `next` and the `Link` header lead on.\n"
        "- What has an `ETag` is changed with `If-Match`; 412 if somebody was faster.\n"
        "- What is not there and what nobody may know of is 404 in the same words."
    )
    yield "## Permissions"
    yield (
        "A token has some of these. It allows what both it and the role of its maker allow, asked\n"
        "in the transaction that acts: a maker who loses a role has weaker tokens at once."
    )
    roles = tuple(MAY)
    yield "\n".join(
        [
            f"| permission | {' | '.join(role.value for role in roles)} |",
            f"|---|{'---|' * len(roles)}",
            *(
                f"| `{each.value}` | "
                + " | ".join("yes" if each in MAY[role] else "" for role in roles)
                + " |"
                for each in Permission
            ),
        ]
    )
    for area, operations in AREAS.items():
        yield f"## {area.capitalize()}"
        yield "\n".join(
            ["| operation | needs | what it does |", "|---|---|---|", *map(_row, operations)]
        )


def _row(operation: Operation) -> str:
    said = ". ".join(
        text.removesuffix(".") for text in (operation.summary, operation.description) if text
    )
    query = ", ".join(f"`{each.name}`" for each in operation.query)
    narrowed = f" Query: {query}." if query else ""
    guarded = " With `If-Match`." if operation.guarded else ""
    return (
        f"| `{operation.method} {operation.path}` | `{operation.permission.value}` |"
        f" {said}.{narrowed}{guarded} |"
    )
