"""Convert the export of a Keycloak realm to tables of `valetkey apply` and rows of an import."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast
from urllib.parse import urljoin

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.clients import client_id_faults, secret_faults
from valetkey.authorization.actions.users import UserWanted, username_fault, wanted_record
from valetkey.authorization.authentication.password import hash_prepared, prepare
from valetkey.authorization.authentication.password_formats import HashFault, read_hash
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.imports.rules.files import (
    Json,
    object_in,
    objects_in,
    text_in,
    text_values_in,
    texts_in,
    tuple_in,
)
from valetkey.authorization.model.client import ClientType, GrantTypeName, ProfileName
from valetkey.authorization.model.user import (
    ATTRIBUTE_NAME,
    LARGEST_ATTRIBUTES,
    MOST_ATTRIBUTES,
    NAME,
    fold,
)
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, with_values
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.protocol.register.faults import REASONS, MetadataError
from valetkey.config.settings import PasswordSettings
from valetkey.kernel.secret import Secret

_OWN_CLIENTS = frozenset(
    {
        "account",
        "account-console",
        "admin-cli",
        "broker",
        "realm-management",
        "security-admin-console",
    }
)
_OWN_ROLES = frozenset({"offline_access", "uma_authorization", "uma_protection"})
_OWN_SCOPES = frozenset(
    {
        *("acr", "address", "basic", "email", "microprofile-jwt", "offline_access", "openid"),
        *("organization", "phone", "profile", "role_list", "roles", "saml_organization"),
        *("service_account", "web-origins"),
    }
)
_SCOPES = ("openid", "profile", "email", "address", "phone", "offline_access")
_USUAL_SCOPES = ("openid", "profile", "email")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_SALT = 16
_CLAIMS = {
    "middleName": "middle_name",
    "middle_name": "middle_name",
    "nickname": "nickname",
    "profile": "profile",
    "picture": "picture",
    "website": "website",
    "gender": "gender",
    "birthdate": "birthdate",
    "zoneinfo": "zoneinfo",
    "locale": "locale",
    "phoneNumber": "phone_number",
    "phone_number": "phone_number",
}
_FORMER_SUB = "former_sub"
_LEFT_OUT = {
    "identityProviders": "declare it in [[federation.providers]] of valetkey.toml",
    "organizations": "there are no organizations: use groups",
    "authenticationFlows": "there are no authentication flows: see the settings of factors",
}
_TEXTS = {
    "logoUri": "logo_uri",
    "policyUri": "policy_uri",
    "tosUri": "tos_uri",
    "backchannel.logout.url": "backchannel_logout_uri",
    "frontchannel.logout.url": "frontchannel_logout_uri",
}
_METHODS = {"client-jwt": "private_key_jwt", "client-secret-jwt": "client_secret_jwt"}


class LeftOut(Struct, frozen=True):
    """What is not converted, or not as it was, and why."""

    item: str
    reason: str


class Converted(Struct, frozen=True):
    """The tables for `valetkey apply`, the rows of an import, and what was left out."""

    realm: str
    tables: Sequence[tuple[str, Json]]
    users: Sequence[Json]
    left_out: Sequence[LeftOut]

    def count(self, kind: str) -> int:
        """Count the tables of this kind."""
        return sum(1 for table_kind, _ in self.tables if table_kind == kind)


def realm_of(documents: Sequence[object]) -> Json | None:
    """Return the realm of one or several files of an export; None if they have none or several.

    A file may have a realm, a list of them, a part of a realm such as its users, or one client.
    """
    merged: dict[str, object] = {}
    for document in documents:
        parts = cast("list[object]", document) if isinstance(document, list) else [document]
        for part in parts:
            if not isinstance(part, dict):
                return None
            realm_part = cast("dict[str, object]", part)
            if "clientId" in realm_part:
                realm_part = {"clients": [realm_part]}
            if not realm_part.keys() & {"realm", "clients", "users", "groups", "roles"}:
                return None
            name = realm_part.get("realm", "")
            if merged.get("realm", name) != name and name and merged["realm"]:
                return None
            for key, value in realm_part.items():
                before = merged.get(key)
                if isinstance(before, list) and isinstance(value, list):
                    merged[key] = [*before, *value]
                elif before is None or before == "":
                    merged[key] = value
    return merged or None


def convert(realm: Json, random: Callable[[int], bytes]) -> Converted:
    """Convert a realm; every part is judged by the rules of the server that takes it."""
    return _Conversion(realm, random).convert()


class _Conversion:
    """One conversion: it collects what it converted, and what it left out."""

    def __init__(self, realm: Json, random: Callable[[int], bytes]) -> None:
        self.realm = realm
        self.name = text_in(realm.get("realm")) or "realm"
        self.random = random
        self.left: list[LeftOut] = []
        self.users: list[Json] = []
        self.more: list[tuple[str, Json]] = []
        self.attributes: dict[str, Json] = {}
        self.names: set[str] = set()
        self.emails: set[str] = set()
        self.members: dict[str, list[str]] = {}
        self.roles = _Roles(realm)

    def convert(self) -> Converted:
        for user in objects_in(self.realm.get("users")):
            client = text_in(user.get("serviceAccountClientId"))
            if not client:
                self._user(user)
            elif any(True for _ in self.roles.roles_of(user)):
                self._leave(f"roles of client {client}", "give them with [[roles]] of an API")
        clients = [("clients", table) for table in self._clients()]
        groups = [("groups", table) for table in self._groups()]
        self._leave_rest()
        claims: list[tuple[str, Json]] = []
        if _FORMER_SUB in self.attributes:
            source = {"name": _FORMER_SUB, "from": f"attribute:{_FORMER_SUB}"}
            claims = [("claims", {**source, "in": ["id_token", "userinfo"]})]
        declared = [("attributes", table) for table in self.attributes.values()]
        tables = [*declared, *self.more, *groups, *clients, *claims]
        return Converted(self.name, tables, self.users, self.left)

    def _leave(self, item: str, reason: str) -> None:
        self.left.append(LeftOut(item, reason))

    # Users

    def _user(self, user: Json) -> None:
        given_name = text_in(user.get("username"))
        item, email = f"user {given_name}", text_in(user.get("email"))
        if not email or fold(email) in self.emails:
            why = "another user has its email address" if email else "it has no email address"
            self._leave(item, why)
            return
        username = self._username(given_name)
        record = self._judged(item, username, email, user)
        if record is None:
            return
        self.names.add(fold(username))
        self.emails.add(fold(email))
        if username != given_name:
            self._leave(item, f"the username is {username}; the email address signs in, too")
        if stored := self._hash(item, user):
            record["password_hash"] = stored
        self.users.append(record)
        extra: dict[str, object] = {}
        if values := self._attributes(item, user):
            extra["attributes"] = values
        if user.get("enabled") is False:
            extra["disabled"] = True
        if extra:
            more = {"username": username, "email": record["email"], **extra}
            self.more.append(("users", more))
        for group in self._groups_of(user):
            self.members.setdefault(group, []).append(username)

    def _username(self, realm_name: str) -> str:
        """Return the username: without @ and spaces, and none that is taken or reserved."""
        plain = realm_name.partition("@")[0] or realm_name
        base = plain if not set(plain) & set(" @") else _NOT_A_NAME.sub("-", plain)
        if username_fault(base):
            base = f"{base}-{_NOT_A_NAME.sub('-', self.name).strip('-.') or 'user'}"
        username, number = base, 1
        while fold(username) in self.names:
            number += 1
            username = f"{base}-{number}"
        return username

    def _judged(self, item: str, username: str, email: str, user: Json) -> dict[str, object] | None:
        """Return the row without the claims that break a rule; None if the rest does, too."""
        first, last = text_in(user.get("firstName")), text_in(user.get("lastName"))
        record: dict[str, object] = {
            "username": username,
            "email": email,
            "name": f"{first} {last}".strip(),
            "email_verified": user.get("emailVerified") is True,
            "given_name": first,
            "family_name": last,
        }
        kept = _attributes_of(user)
        record |= {ours: kept[name][0] for name, ours in _CLAIMS.items() if kept.get(name)}
        record = {name: value for name, value in record.items() if value != ""}
        for _ in range(len(record) + 1):
            field, reason = _user_fault(record)
            if not field:
                return record
            if field in {"username", "email"} or field not in record:
                self._leave(item, f"{field}: {reason}")
                return None
            self._leave(f"{item}, {field}", reason)
            del record[field]
        return None

    def _hash(self, item: str, user: Json) -> str:
        stored = ""
        for credential in objects_in(user.get("credentials")):
            kind = text_in(credential.get("type"))
            if kind != "password":
                self._leave(f"{item}, {kind or 'credential'}", "second factors are added again")
                continue
            stored = self._password(credential)
            try:
                read_hash(stored)
            except HashFault as fault:
                self._leave(f"{item}, password", REASONS[fault.code])
                stored = ""
        return stored

    def _password(self, credential: Json) -> str:
        if plain := text_in(credential.get("value")):
            prepared = prepare(plain)
            salt = self.random(_SALT)
            return hash_prepared(prepared, PasswordSettings(), salt) if prepared else ""
        secret = object_in(credential.get("secretData")) or {
            "value": credential.get("hashedSaltedValue"),
            "salt": credential.get("salt"),
        }
        costs = object_in(credential.get("credentialData")) or credential
        algorithm = text_in(costs.get("algorithm")) or "pbkdf2"
        iterations = costs.get("hashIterations")
        salted, value = (text_in(secret.get(name)).rstrip("=") for name in ("salt", "value"))
        if algorithm.startswith("argon2"):
            more = cast("Json", costs.get("additionalParameters") or {})
            parameters = {name: (texts_in(more.get(name)) or [""])[0] for name in _ARGON2}
            kind = f"argon2{parameters['type']}" if algorithm == "argon2" else algorithm
            cost = f"m={parameters['memory']},t={iterations},p={parameters['parallelism']}"
            version = _ARGON2_VERSIONS.get(parameters["version"], 19)
            return f"${kind}$v={version}${cost}${salted}${value}"
        name = {"pbkdf2": "pbkdf2-sha1"}.get(algorithm, algorithm)
        return f"${name}$i={iterations}${salted}${value}"

    def _attributes(self, item: str, user: Json) -> Json:
        """Return the values of other attributes, and declare them."""
        attributes: dict[str, object] = {}
        declared = self.attributes
        user_attributes = {
            name: texts for name, texts in _attributes_of(user).items() if name not in _CLAIMS
        }
        if subject := text_in(user.get("id")):
            user_attributes = {_FORMER_SUB: [subject], **user_attributes}
        for attribute, values in user_attributes.items():
            name = re.sub(r"[^A-Za-z0-9_]+", "_", attribute)[:40]
            if re.fullmatch(ATTRIBUTE_NAME, name) is None or name in attributes:
                self._leave(f"{item}, attribute {attribute}", "it has no usable name")
                continue
            if name not in declared and len(declared) == MOST_ATTRIBUTES:
                self._leave(
                    f"{item}, attribute {attribute}", f"more than {MOST_ATTRIBUTES} attributes"
                )
                continue
            several = name != _FORMER_SUB
            if len(msgspec.json.encode({**attributes, name: values})) > LARGEST_ATTRIBUTES:
                self._leave(f"{item}, attribute {attribute}", f"above {LARGEST_ATTRIBUTES} bytes")
                continue
            attributes[name] = list(values) if several else values[0]
            one = {"type": "string", "maxLength": 2_048}
            schema = {"type": "array", "items": one} if several else one
            label = "Former subject" if name == _FORMER_SUB else attribute[:80]
            declared.setdefault(name, {"name": name, "label": label, "schema": schema})
        return attributes

    # Groups

    def _groups_of(self, user: Json) -> Iterator[str]:
        paths = [path for path in texts_in(user.get("groups")) if path in self.roles.groups]
        for path in dict.fromkeys(paths):
            yield self.roles.group_names[path]
        for role in dict.fromkeys(self.roles.roles_of(user)):
            if name := self.roles.role_names.get(role):
                yield name

    def _groups(self) -> Iterator[Json]:
        for item, name in self.roles.renamed():
            self._leave(item, f"the group is {name}: its own name is taken, or not one of a group")
        named = [
            *((self.roles.group_names[path], "") for path in self.roles.groups),
            *((name, self.roles.described(role)) for role, name in self.roles.role_names.items()),
        ]
        for name, description in named:
            group: dict[str, object] = {"name": name, "members": self.members.get(name, [])}
            try:
                msgspec.convert({"name": name, "description": description}, GroupWanted)
                group["description"] = description
            except msgspec.ValidationError:
                self._leave(
                    f"group {name}, description", "it is too long, or has control characters"
                )
            yield {key: value for key, value in group.items() if value}

    # Clients

    def _clients(self) -> Iterator[Json]:
        seen: set[str] = set()
        for client in objects_in(self.realm.get("clients")):
            client_id = text_in(client.get("clientId"))
            item = f"client {client_id}"
            if client_id in _OWN_CLIENTS or client_id == f"{self.name}-realm":
                continue
            if text_in(client.get("protocol")) == "saml":
                self._leave(item, "SAML is not supported")
            elif client.get("bearerOnly") is True:
                self._leave(
                    item, "an API: declare it with [[apis]], with an https URL as identifier"
                )
            elif faults := client_id_faults(client_id):
                self._leave(item, f"its id must be {faults[0].detail}")
            elif client_id in seen:
                self._leave(item, "another client has the same id")
            elif made := self._client(item, client):
                seen.add(client_id)
                yield made

    def _client(self, item: str, client: Json) -> Json | None:
        attributes = text_values_in(client.get("attributes"))
        grants = _grants_of(client, attributes)
        uris = self._uris(item, "redirect URI", texts_in(client.get("redirectUris")), client)
        after = attributes.get("post.logout.redirect.uris", "").split("##")
        after = [uri for uri in after if uri not in {"", "-", "+"}]
        left = self._uris(item, "post-logout redirect URI", after, client)
        if "+" in attributes.get("post.logout.redirect.uris", "").split("##"):
            left = list(dict.fromkeys([*uris, *left]))
        name = text_in(client.get("name"))
        values: dict[str, object] = {
            "name": client["clientId"] if name.startswith("${") or not name else name,
            "description": text_in(client.get("description")),
            "redirect_uris": tuple(uris),
            "post_logout_redirect_uris": tuple(left),
            "grant_types": tuple(grants),
            "scopes": _scopes_of(client, grants),
            "profile": ProfileName.CLASSIC.value,
            "type": (
                ClientType.PUBLIC if client.get("publicClient") else ClientType.CONFIDENTIAL
            ).value,
            **{ours: attributes.get(theirs, "") for theirs, ours in _TEXTS.items()},
            "client_uri": _resolved(text_in(client.get("baseUrl")), client),
            "requires_pkce": attributes.get("pkce.code.challenge.method") == "S256",
        }
        if client.get("frontchannelLogout") is not True:
            values["frontchannel_logout_uri"] = ""
        method = text_in(client.get("clientAuthenticatorType"))
        if method in _METHODS:
            values["token_endpoint_auth_method"] = _METHODS[method]
            values["jwks_uri"] = attributes.get("jwks.url", "")
        self._client_rest(item, client)
        values = {key: value for key, value in values.items() if value or key == "grant_types"}
        judged = self._judge_client(item, values)
        if judged is None:
            return None
        table: dict[str, object] = {"client_id": client["clientId"], **judged}
        secret = text_in(client.get("secret"))
        is_secret = judged.get("type") != "public" and method not in {"client-jwt", "client-x509"}
        if is_secret:
            if not secret or secret_faults(Secret(secret)):
                why = "none is in the file" if not set(secret) - {"*"} else "it is too short"
                self._leave(f"{item}, secret", f"{why}: valetkey apply makes a new one")
            else:
                table["client_secret"] = secret
        if client.get("enabled") is False:
            table["disabled"] = True
        return table

    def _uris(self, item: str, kind: str, uris: Sequence[str], client: Json) -> list[str]:
        resolved_uris: list[str] = []
        for raw_uri in uris:
            uri = _resolved(raw_uri, client)
            if "*" in uri:
                plain = uri.removesuffix("*")
                if "*" in plain or "://" not in plain or plain.endswith("://"):
                    self._leave(f"{item}, {kind} {raw_uri}", "addresses are compared byte by byte")
                    continue
                self._leave(
                    f"{item}, {kind} {raw_uri}",
                    f"is {plain}: addresses are compared byte by byte; add each that the app uses",
                )
                uri = plain
            resolved_uris.append(uri)
        return list(dict.fromkeys(resolved_uris))

    def _judge_client(self, item: str, values: dict[str, object]) -> dict[str, object] | None:
        """Return the values without those that break a rule; None if the rest does, too."""
        for _ in range(10):
            metadata = with_values(ClientMetadata(name=""), values)
            faults = _RULES.faults(metadata)
            if not faults:
                return values
            if not self._drop(item, values, faults):
                return None
        self._leave(item, "too many of its values break a rule")
        return None

    def _drop(self, item: str, values: dict[str, object], faults: Sequence[MetadataError]) -> bool:
        """Remove what the faults name; False if the client cannot be kept."""
        gone: dict[str, set[int]] = {}
        for fault in faults:
            field, _, pointer = fault.field.partition("/")
            listed = tuple_in(values.get(field))
            if field == "redirect_uris" and not pointer and not listed:
                return self._drop_grants(item, values)
            if field not in values or field in {"name", "type", "profile"}:
                self._leave(item, f"{fault.field}: {fault.detail}")
                return False
            number = pointer.partition("/")[0]
            places = {int(number)} if listed and number.isdigit() else set(range(len(listed)))
            which = f" {listed[int(number)]}" if listed and number.isdigit() else ""
            self._leave(f"{item}, {field}{which}", f"must be {fault.detail}")
            gone.setdefault(field, set()).update(places)
        for field, places in gone.items():
            listed = tuple_in(values.pop(field))
            if kept := tuple(it for at, it in enumerate(listed) if at not in places):
                values[field] = kept
        return bool(values.get("grant_types"))

    def _drop_grants(self, item: str, values: dict[str, object]) -> bool:
        grants = cast("tuple[str, ...]", values["grant_types"])
        kept = [name for name in grants if not GRANT_RULES[name].needs_redirect_uri]
        refreshes = any(GRANT_RULES[name].issues_refresh_tokens for name in kept)
        if not refreshes:
            kept = [name for name in kept if name != GrantTypeName.REFRESH_TOKEN]
        if not kept:
            self._leave(item, "it has no redirect URI, and no other grant type")
            return False
        self._leave(f"{item}, authorization_code", "it has no redirect URI")
        values["grant_types"] = tuple(kept)
        if kept == [GrantTypeName.CLIENT_CREDENTIALS]:
            values.pop("scopes", None)
        return True

    def _client_rest(self, item: str, client: Json) -> None:
        if mappers := len(objects_in(client.get("protocolMappers"))):
            self._leave(f"{item}, {mappers} protocol mappers", "declare claims with [[claims]]")
        if client.get("authorizationSettings"):
            self._leave(f"{item}, authorization services", "there is no UMA: use scopes and roles")
        if text_in(client.get("clientAuthenticatorType")) == "client-x509":
            self._leave(f"{item}, client-x509", "certificates do not authenticate; choose a secret")

    # What has no counterpart

    def _leave_rest(self) -> None:
        for key, reason in _LEFT_OUT.items():
            for record in objects_in(self.realm.get(key)):
                if record.get("builtIn") is True:
                    continue
                name = record.get("alias") or record.get("name") or ""
                self._leave(f"{key} {text_in(name)}".strip(), reason)
        components = self.realm.get("components")
        storage = cast("Json", components if isinstance(components, dict) else {})
        for provider in objects_in(storage.get("org.keycloak.storage.UserStorageProvider")):
            reason = "there is no LDAP or Kerberos: provision its users by SCIM"
            self._leave(f"user storage {text_in(provider.get('name'))}", reason)
        for client_scope in objects_in(self.realm.get("clientScopes")):
            if (name := text_in(client_scope.get("name"))) not in _OWN_SCOPES:
                self._leave(f"client scope {name}", "declare it as a scope of an API with [[apis]]")
        for group in self.roles.groups.values():
            if group.get("attributes"):
                self._leave(f"attributes of group {text_in(group.get('name'))}", "groups have none")


class _Roles:
    """Groups and roles of a realm, which are groups here, and which a user has."""

    def __init__(self, realm: Json) -> None:
        own = f"default-roles-{text_in(realm.get('realm')).lower()}"
        realm_roles = realm.get("roles")
        roles = cast("Json", realm_roles if isinstance(realm_roles, dict) else {})
        clients = roles.get("client")
        self._known: dict[tuple[str, str], Json] = {
            ("", text_in(realm_role.get("name"))): realm_role
            for realm_role in objects_in(roles.get("realm"))
        }
        for client, listed in cast("Json", clients if isinstance(clients, dict) else {}).items():
            for client_role in objects_in(listed):
                self._known[client, text_in(client_role.get("name"))] = client_role
        self.groups = _flat(realm)
        # An export of a part of a realm may have users alone.
        for user in objects_in(realm.get("users")):
            for path in texts_in(user.get("groups")):
                self.groups.setdefault(path, {})
            for role in _roles_of(user):
                self._known.setdefault(role, {})
        taken: set[str] = set()
        self.group_names = {
            path: _free(path.strip("/").replace("/", "."), taken) for path in self.groups
        }
        self.role_names = {
            (client, name): _free(f"{client}.{name}" if client else name, taken)
            for client, name in self._known
            if name and name not in _OWN_ROLES | {own} and client not in _OWN_CLIENTS
        }

    def renamed(self) -> Iterator[tuple[str, str]]:
        """Yield the groups and roles with another name here, which apps must be told, and it."""
        for path, name in self.group_names.items():
            if name != path.strip("/").replace("/", "."):
                yield f"group {path}", name
        for (client, role), name in self.role_names.items():
            if name != (old_name := f"{client}.{role}" if client else role):
                yield f"role {old_name}", name

    def described(self, role: tuple[str, str]) -> str:
        """Return the description of a role, unless it is a placeholder."""
        text = text_in(self._known[role].get("description"))
        return "" if text.startswith("${") else text

    def roles_of(self, user: Json) -> Iterator[tuple[str, str]]:
        """Yield the roles of a user: its own, those of its groups, and those that they contain."""
        waiting = [*_roles_of(user)]
        for path in texts_in(user.get("groups")):
            parts = path.strip("/").split("/")
            for size in range(1, len(parts) + 1):
                waiting += _roles_of(self.groups.get("/" + "/".join(parts[:size]), {}))
        seen: set[tuple[str, str]] = set()
        while waiting:
            role = waiting.pop()
            if role in seen:
                continue
            seen.add(role)
            inner = self._known.get(role, {}).get("composites")
            if isinstance(inner, dict):
                composites = cast("Json", inner)
                waiting += _roles_of(
                    {"realmRoles": composites.get("realm"), "clientRoles": composites.get("client")}
                )
            if role in self.role_names:
                yield role


def _roles_of(holder: Json) -> Iterator[tuple[str, str]]:
    for name in texts_in(holder.get("realmRoles")):
        yield "", name
    of_clients = holder.get("clientRoles")
    for client, names in cast("Json", of_clients if isinstance(of_clients, dict) else {}).items():
        for name in texts_in(names):
            yield client, name


def _flat(realm: Json) -> dict[str, Json]:
    """Return the groups by their paths, those in others after them."""
    groups: dict[str, Json] = {}
    waiting = [("", top_group) for top_group in objects_in(realm.get("groups"))]
    while waiting:
        above, group = waiting.pop(0)
        path = f"{above}/{text_in(group.get('name'))}"
        groups[path] = group
        waiting += [(path, subgroup) for subgroup in objects_in(group.get("subGroups"))]
    return groups


def _free(text: str, taken: set[str]) -> str:
    plain = _NOT_A_NAME.sub("-", text).strip("-._")[:70] or "group"
    name, number = plain, 1
    while fold(name) in taken or re.fullmatch(NAME, name) is None:
        number += 1
        name = f"{plain}-{number}"
    taken.add(fold(name))
    return name


_ARGON2 = ("type", "version", "memory", "parallelism")
_ARGON2_VERSIONS = {"1.0": 16, "1.3": 19}
_RULES = ClientRules(
    own_origins=(),
    scopes=_SCOPES,
    grant_types=GRANT_RULES,
    default_profile=ProfileName.CLASSIC,
)


def _user_fault(record: Json) -> tuple[str, str]:
    """Return the first field of a row that breaks a rule, and why; "" for none."""
    try:
        user = wanted_record(msgspec.convert(record, UserWanted))
    except msgspec.ValidationError as error:
        field = str(error).rpartition("`$.")[2].partition("`")[0]
        return field or "user", str(error).partition(" - at")[0]
    faults = user.faults()
    if faults:
        return faults[0].field.partition("/")[0], f"must be {faults[0].detail}"
    detail = username_fault(user.username)
    return ("username", f"must be {detail}") if detail else ("", "")


def _grants_of(client: Json, attributes: Mapping[str, str]) -> Sequence[str]:
    grant_types: list[str] = []
    if (
        client.get("standardFlowEnabled", True) is True
        and client.get("directGrantsOnly") is not True
    ):
        grant_types += [GrantTypeName.AUTHORIZATION_CODE, GrantTypeName.REFRESH_TOKEN]
    if client.get("implicitFlowEnabled") is True:
        grant_types.append(GrantTypeName.IMPLICIT)
    if client.get("directAccessGrantsEnabled") is True or client.get("directGrantsOnly") is True:
        grant_types.append(GrantTypeName.PASSWORD)
    if client.get("serviceAccountsEnabled") is True and not client.get("publicClient"):
        grant_types.append(GrantTypeName.CLIENT_CREDENTIALS)
    if attributes.get("oauth2.device.authorization.grant.enabled") == "true":
        grant_types.append(GrantTypeName.DEVICE_CODE)
        if GrantTypeName.REFRESH_TOKEN not in grant_types:
            grant_types.append(GrantTypeName.REFRESH_TOKEN)
    return [str(grant_type) for grant_type in grant_types]


def _scopes_of(client: Json, grants: Sequence[str]) -> tuple[str, ...]:
    if not set(grants) - {GrantTypeName.CLIENT_CREDENTIALS}:
        return ()
    scopes = [
        *texts_in(client.get("defaultClientScopes")),
        *texts_in(client.get("optionalClientScopes")),
    ]
    names = {"openid", *scopes} if scopes else set(_USUAL_SCOPES)
    return tuple(name for name in _SCOPES if name in names)


def _resolved(uri: str, client: Json) -> str:
    """Return the address, below the root URL of the client if it is relative."""
    root = text_in(client.get("rootUrl"))
    if not uri.startswith("/") or not root or root.startswith("${"):
        return uri
    return urljoin(f"{root.rstrip('/')}/", uri.lstrip("/"))


def _attributes_of(user: Json) -> Mapping[str, Sequence[str]]:
    attributes = user.get("attributes")
    texts = {
        name: texts_in(value) or ([value] if isinstance(value, str) and value else [])
        for name, value in cast("Json", attributes if isinstance(attributes, dict) else {}).items()
    }
    return {name: values for name, values in texts.items() if values}
