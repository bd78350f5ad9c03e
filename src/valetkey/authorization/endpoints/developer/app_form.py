"""The form of an app, between what a browser sends and what the portal understands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from valetkey.authorization.deeds.developer.portal import Portal
from valetkey.authorization.deeds.developer.wish import AppKind, AppWish, wish_of
from valetkey.authorization.model.register.client import Client, GrantTypeName
from valetkey.authorization.pages.developer.settings.faults import by_field
from valetkey.authorization.pages.developer.settings.form import AppForm, ScopeBox, UriRow
from valetkey.authorization.protocol.register.client_metadata import (
    MOST_REDIRECT_URIS,
    Fault,
)
from valetkey.web.form import Form

_MORE = 2
"""Empty rows for one who asks for more of them."""


@dataclass(frozen=True, slots=True)
class AppForms:
    """Reads and makes the form; `scopes` has the sentence of each that people can be asked for."""

    portal: Portal
    scopes: Mapping[str, str]

    def read(self, form: Form, kind: AppKind, before: Client | None = None) -> AppWish:
        """What the form says. What it does not ask about stays as it was."""
        wish = AppWish(kind) if before is None else wish_of(before)
        if kind is not AppKind.MACHINE:
            wish = replace(
                wish,
                redirect_uris=typed_uris(form),
                scopes=self._chosen(form, before),
                stays_connected=_flag(form, "stays_connected"),
                acts_alone=kind is AppKind.SERVER and _flag(form, "acts_alone"),
            )
        if kind is AppKind.SERVER:
            wish = replace(wish, requires_pkce=_flag(form, "requires_pkce"))
        return replace(
            wish,
            name=_text(form, "name"),
            description=_text(form, "description"),
            profile=_text(form, "profile") or wish.profile,
            website=_text(form, "website"),
            logo_uri=_text(form, "logo_uri"),
            policy_uri=_text(form, "policy_uri"),
            tos_uri=_text(form, "tos_uri"),
        )

    def shown(
        self,
        wish: AppWish,
        *,
        before: Client | None = None,
        faults: Iterable[Fault] = (),
        more: bool = False,
        checked: bool = False,
    ) -> AppForm:
        """The form with these values, and each fault where it belongs."""
        told = by_field((fault.field, fault.detail) for fault in faults)
        rows = [
            UriRow(
                uri,
                told.get(f"redirect_uris/{number}", ""),
                good=checked and f"redirect_uris/{number}" not in told,
            )
            for number, uri in enumerate(wish.redirect_uris)
        ]
        empty = 1 + more * _MORE if rows else 2 + more
        rows += [UriRow()] * min(empty, max(0, MOST_REDIRECT_URIS - len(rows)))
        allowed = self.portal.settings.grant_types
        had = before.grant_types if before is not None else frozenset[str]()
        return AppForm(
            kind=wish.kind.value,
            name=wish.name,
            description=wish.description,
            redirect_uris=tuple(rows),
            scopes=tuple(self._boxes(wish, before)),
            profile=wish.profile or self.portal.settings.default_profile.value,
            website=wish.website,
            logo_uri=wish.logo_uri,
            policy_uri=wish.policy_uri,
            tos_uri=wish.tos_uri,
            stays_connected=wish.stays_connected,
            acts_alone=wish.acts_alone,
            requires_pkce=wish.requires_pkce,
            may_stay_connected=GrantTypeName.REFRESH_TOKEN in {*allowed, *had},
            may_act_alone=GrantTypeName.CLIENT_CREDENTIALS in {*allowed, *had},
            faults={name: text for name, text in told.items() if "/" not in name},
            checked=checked and not any(name.startswith("redirect_uris") for name in told),
        )

    def _chosen(self, form: Form, before: Client | None) -> tuple[str, ...]:
        """The scopes that are ticked, and those that nobody could tick."""
        had = () if before is None else before.scope.names
        hidden = tuple(name for name in had if name not in self.scopes)
        ticked = tuple(n.removeprefix("scope:") for n in form.names if n.startswith("scope:"))
        # In the order in which they are declared, whatever the browser made of it.
        known = tuple(name for name in self.scopes if name in ticked)
        odd = tuple(name for name in ticked if name not in self.scopes)
        return (*known, *odd, *hidden)

    def _boxes(self, wish: AppWish, before: Client | None) -> Iterable[ScopeBox]:
        offered = self.portal.offered_scopes
        for name, sentence in self.scopes.items():
            given = name not in offered
            if not given or (before is not None and name in before.scope):
                yield ScopeBox(name, sentence, chosen=name in wish.scopes, given=given)


def typed_uris(form: Form) -> tuple[str, ...]:
    """The redirect URIs in the order of their rows, without the empty ones."""
    # One row more than can be registered, so that one too many is told and not dropped.
    rows = (_text(form, f"redirect_uri_{number}") for number in range(MOST_REDIRECT_URIS + 1))
    return tuple(row for row in rows if row)


def about_uris(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Those about redirect URIs alone."""
    return tuple(fault for fault in faults if fault.field.partition("/")[0] == "redirect_uris")


def _text(form: Form, name: str) -> str:
    return (form.get(name) or "").strip()


def _flag(form: Form, name: str) -> bool:
    return form.get(name) == "yes"
