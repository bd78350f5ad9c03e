"""The form of an app: what was typed, what can be chosen, and what is wrong beside each field."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UriRow:
    """One redirect URI as it was typed; "" is a row to write in. `fault` is a whole sentence."""

    value: str = ""
    fault: str = ""
    #: It was checked, and can be registered.
    good: bool = False


@dataclass(frozen=True, slots=True)
class ScopeBox:
    """One scope with its sentence. `given` by an administrator: others cannot have it here."""

    name: str
    sentence: str
    chosen: bool = False
    given: bool = False


@dataclass(frozen=True, slots=True)
class AppForm:
    """Every field of the form. `faults` has a whole sentence for each field that has one."""

    kind: str
    name: str = ""
    description: str = ""
    redirect_uris: tuple[UriRow, ...] = ()
    scopes: tuple[ScopeBox, ...] = ()
    profile: str = ""
    website: str = ""
    logo_uri: str = ""
    policy_uri: str = ""
    tos_uri: str = ""
    stays_connected: bool = True
    acts_alone: bool = False
    requires_pkce: bool = True
    #: What this server lets an app of the portal have.
    may_stay_connected: bool = True
    may_act_alone: bool = True
    faults: Mapping[str, str] = field(default_factory=dict[str, str])
    #: The addresses were checked, and nothing was saved.
    checked: bool = False

    def fault(self, name: str) -> str:
        """What is wrong with this field; "" for nothing."""
        return self.faults.get(name, "")

    @property
    def sends_people(self) -> bool:
        """Whether people are asked, and sent back to it."""
        return self.kind != "machine"

    @property
    def is_wrong(self) -> bool:
        """Whether anything is to be mended."""
        return bool(self.faults) or any(row.fault for row in self.redirect_uris)
