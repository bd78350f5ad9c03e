"""Checks of SCIM: what directories send and cannot be kept."""

from collections import Counter
from itertools import islice

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Findings,
    Installation,
    Level,
    RemedyButton,
)
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.scim.storage import ScimCredentials
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.text import translatable

_MOST_NAMED = 20
_MOST_LEFT_OUT = 10_000

LEFT_OUT = Condition(
    "scim_left_out",
    Level.WARNING,
    "directory %(name)s",
    translatable(
        "The directory %(name)s sends values that cannot be kept, for users and groups: %(count)s. "
        "Attributes: %(attributes)s."
    ),
    translatable(
        "Correct them in the directory, or remove these attributes from its mapping. The events "
        "scim_values.ignored name the users and groups."
    ),
    page="how-to/people/provision-by-scim",
    console=f"{ADDRESSES['admin_events']}?name=scim_values.ignored",
    remedy=RemedyButton(translatable("Show the ignored values")),
)

KEPT = Condition(
    "scim_good",
    Level.OK,
    "directories",
    translatable("All values that directories send are kept. Credentials: %(count)s."),
)


def directories(tx: Transaction, _: Installation) -> Findings:
    """Count what directories send by SCIM and cannot be kept."""
    resources, counts = Counter[str](), dict[str, Counter[str]]()
    for left_out in ScimCredentials.of(tx).left_out(_MOST_LEFT_OUT):
        resources[left_out.credential] += left_out.count
        for name in left_out.attributes.split(", "):
            counts.setdefault(left_out.credential, Counter())[name] += left_out.count
    for directory, attributes in islice(counts.items(), _MOST_NAMED):
        yield LEFT_OUT.finding(
            name=directory,
            count=resources[directory],
            attributes=", ".join(f"{n} ({k})" for n, k in attributes.most_common(_MOST_NAMED)),
        )
    if not counts and (live := ScimCredentials.of(tx).usable(_MOST_LEFT_OUT)):
        yield KEPT.finding(count=len(live))


CHECKS = (
    DatabaseCheck("directories", directories, (LEFT_OUT, KEPT), translatable("Directories (SCIM)")),
)
