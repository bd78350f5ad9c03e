"""Every check of the console and of `doctor`, and every condition that one can find."""

from valetkey.authorization.actions.inspection import inspector
from valetkey.authorization.features import CHECKS as OF_FEATURES

CHECKS = (*inspector.CHECKS, *OF_FEATURES)
CONDITIONS = tuple(row for check in CHECKS for row in check.conditions)
