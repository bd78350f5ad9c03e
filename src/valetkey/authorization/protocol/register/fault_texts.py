"""The texts about what is wrong with a field: one for programs, a sentence for people, by code."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from valetkey.kernel.text import translatable


class FaultText(Struct, frozen=True):
    """The text of a code for programs, and its sentence for people, marked for translation."""

    detail: str
    sentence: str


FAULTS: Mapping[str, FaultText] = MappingProxyType(
    {
        "name.length": FaultText(
            "%(least)s to %(most)s printable characters",
            translatable("Enter a name of at most %(most)s visible characters."),
        ),
        "text.length": FaultText(
            "at most %(most)s printable characters",
            translatable("Use at most %(most)s visible characters."),
        ),
        "name.alphabets": FaultText(
            "written in one alphabet per word: letters of different alphabets look alike",
            translatable(
                "Use letters of one alphabet in each word: letters of different alphabets look "
                "alike."
            ),
        ),
        "name.invisible": FaultText(
            "visible characters only", translatable("Use visible characters only.")
        ),
        "name.reserved": FaultText(
            "another one: users could mistake this name for this server",
            translatable(
                "Choose another name: users could mistake this app for the service itself."
            ),
        ),
        "name.verified": FaultText(
            "another one: a verified app has this name",
            translatable("Choose another name: a verified app already uses it."),
        ),
        "link.form": FaultText(
            "an https address",
            translatable(
                "Enter the complete URL, beginning with https:// and without quotes or spaces."
            ),
        ),
        "redirect_uris.none": FaultText(
            "at least one: users are sent back to it",
            translatable("Enter at least one redirect URI."),
        ),
        "redirect_uris.implicit": FaultText(
            "the implicit grant needs https or a loopback address",
            translatable(
                "The implicit grant, which is enabled for this app, requires https or a loopback "
                "address."
            ),
        ),
        "invitations.most": FaultText(
            "one of at most %(most)s that work: end another first",
            translatable("The maximum number of invitations is reached. Withdraw one first."),
        ),
        "scopes.offered": FaultText(
            "only what can be registered here", translatable("Choose one of the listed options.")
        ),
        "profile.implicit": FaultText(
            "the profile %(profile)s has no implicit grant",
            translatable("Deselect the implicit grant first: this profile does not allow it."),
        ),
        "profile.password": FaultText(
            "the profile %(profile)s has no password grant",
            translatable("Deselect the password grant first: this profile does not allow it."),
        ),
        "list.none": FaultText(
            "at least one, each only once", translatable("Select at least one option.")
        ),
        "list.repeated": FaultText("each only once", translatable("Enter each value only once.")),
        "list.many": FaultText("at most %(most)s", translatable("Enter at most %(most)s values.")),
        "list.full": FaultText(
            "one of at most %(most)s",
            translatable("There are %(most)s already, which is the maximum. Delete one first."),
        ),
        "choice.known": FaultText(
            "one of: %(known)s", translatable("Choose one of these values: %(known)s.")
        ),
        "number.range": FaultText(
            "from %(least)s to %(most)s",
            translatable("Enter a whole number from %(least)s to %(most)s."),
        ),
        "lifetime.day": FaultText(
            "from one second to one day",
            translatable("Enter a duration from one second to one day."),
        ),
        "lifetime.year": FaultText(
            "from one second to one year",
            translatable("Enter a duration from one second to one year."),
        ),
        "lifetime.decade": FaultText(
            "from one second to ten years",
            translatable("Enter a duration from one second to ten years."),
        ),
        "word.form": FaultText(
            "a name without spaces", translatable("Enter one name without spaces.")
        ),
        "header.value": FaultText(
            "the value of an HTTP header",
            translatable("Use ASCII characters only, at most 2,000 and in one line."),
        ),
        "app.kind": FaultText(
            "another kind of app: this one cannot be registered here",
            translatable("Choose another kind of app: this one cannot be registered here."),
        ),
        "grant.secret": FaultText(
            "%(name)s is for confidential clients only",
            translatable("Deselect %(name)s: only confidential apps can use it."),
        ),
        "grant.refresh": FaultText(
            "refresh_token comes with another grant type",
            translatable(
                "Deselect refresh_token, or select one of these grant types as well: %(known)s."
            ),
        ),
        "grant.later": FaultText(
            "%(name)s is enabled separately, after registration",
            translatable("Deselect %(name)s: an administrator can enable it after registration."),
        ),
        "grant.only": FaultText(
            "this is the only grant type of the client: disable the client instead",
            translatable("This is the only grant type of the app. Disable the app instead."),
        ),
        "response_type.grants": FaultText(
            "needs the grant types %(missing)s",
            translatable("Select the grant types that this response type needs: %(missing)s."),
        ),
        "scopes.api": FaultText(
            "left out: a scope of the API %(api)s needs no registration; the API's clients say "
            "which apps may request it",
            translatable(
                "Remove this scope: it belongs to the API %(api)s. To allow its scopes, add this "
                "app to the allowed apps of the API."
            ),
        ),
        "scopes.own": FaultText(
            "a client's own: it needs client_credentials",
            translatable(
                "Remove this scope, or select client_credentials: the scope is only for tokens of"
                " the app itself."
            ),
        ),
        "scopes.registered": FaultText(
            "only scopes of this client",
            translatable("Remove this scope, or add it to the scopes of the app."),
        ),
        "scopes.users": FaultText(
            "only scopes that can be requested from users",
            translatable("Remove this scope: it is only for tokens of the app itself."),
        ),
        "scopes.many": FaultText(
            "at most %(most)s with the machine scopes",
            translatable("Enter at most %(most)s scopes, machine scopes included."),
        ),
        "scopes.name": FaultText(
            'names of 1 to 100 ASCII characters without # " \\',
            translatable('Use at most 100 ASCII characters without spaces and # " \\.'),
        ),
        "scopes.reserved": FaultText(
            "another name: %(name)s is a scope of this server",
            translatable("Choose another name: %(name)s is a scope of this server."),
        ),
        "scopes.taken": FaultText(
            "another name: %(api)s declares %(name)s, and not both share their scopes",
            translatable(
                "Choose another name: the API %(api)s has the scope %(name)s. For the same name, "
                "both APIs must allow it."
            ),
        ),
        "scopes.text": FaultText(
            "a sentence of 1 to %(most)s characters, as in: see your calendar",
            translatable(
                "Describe the scope in one line of at most %(most)s characters, such as: see your"
                " calendar."
            ),
        ),
        "role.name": FaultText(
            "1 to 80 letters, digits and . _ : -",
            translatable("Use at most 80 letters, digits and . _ : -."),
        ),
        "client.id": FaultText(
            "the id of a client", translatable("Enter the client ID of an app.")
        ),
        "api.identifier": FaultText(
            "the identifier of an API", translatable("Enter the identifier of an API.")
        ),
        "api.url": FaultText(
            "an absolute https URL in lower case",
            translatable(
                "Enter the complete URL in lower case, beginning with https:// and without a "
                "username and #. Only 127.0.0.1, [::1] and localhost can have http."
            ),
        ),
        "api.alike": FaultText(
            "%(name)s, or another one: this API exists, and differs only in the slash at its end",
            translatable(
                "Choose another URL: there is the API %(name)s, which differs only in the slash at "
                "its end."
            ),
        ),
        "audience.form": FaultText(
            "ISSUER CLIENT_ID SCOPE …",
            translatable(
                "Enter the issuer, the client ID there and the scopes, separated by spaces."
            ),
        ),
        "audience.repeated": FaultText(
            "each issuer only once", translatable("Enter each issuer only once.")
        ),
        "audience.subjects": FaultText(
            "an app with public subjects",
            translatable("Remove the audiences: an app with pairwise subjects cannot have any."),
        ),
        "method.type": FaultText(
            "none for public clients, and for no other",
            translatable(
                "Choose no authentication for a public app, and an authentication method for any "
                "other app."
            ),
        ),
        "method.signing": FaultText(
            "only with %(known)s",
            translatable(
                "Leave this empty, or choose an authentication method that signs: %(known)s."
            ),
        ),
        "keys.form": FaultText(
            "public keys as a JSON Web Key Set",
            translatable("Enter a JSON Web Key Set with public keys that can be used."),
        ),
        "keys.needed": FaultText(
            "the client's public keys",
            translatable("Enter the public keys of the app: %(method)s requires them."),
        ),
        "keys.signing": FaultText(
            "a key that verifies signatures: %(method)s needs it",
            translatable("Add a public key that verifies signatures: %(method)s requires it."),
        ),
        "keys.encryption": FaultText(
            "comes with a key of that kind, its use enc",
            translatable("Add a public key for encryption with this algorithm."),
        ),
        "keys.both": FaultText(
            "the keys themselves or the address of the keys, not both",
            translatable("Enter the keys or the URL of the keys, not both."),
        ),
        "encryption.algorithm": FaultText(
            "comes with %(name)s", translatable("Choose an algorithm, or leave %(name)s empty.")
        ),
        "fetch.form": FaultText(
            "an absolute https address in lower case, without user name and fragment",
            translatable(
                "Enter the complete URL in lower case, beginning with https:// and without a "
                "username and #."
            ),
        ),
        "fetch.private": FaultText(
            "a public address, or one in the networks that this server's fetch.allow lists",
            translatable(
                "Enter a public address: this server does not connect to private networks unless "
                "the setting fetch.allow lists them."
            ),
        ),
        "fetch.http": FaultText(
            "https: http is only for the networks that this server's fetch.allow lists",
            translatable(
                "Begin with https://. http is only for networks that the setting fetch.allow lists."
            ),
        ),
        "fetch.port": FaultText(
            "port 443: others are only for the networks that this server's fetch.allow lists",
            translatable(
                "Use port 443: other ports are only for networks that the setting fetch.allow "
                "lists."
            ),
        ),
        "sector.needed": FaultText(
            "needed for pairwise subjects unless all redirect URIs have the same host",
            translatable(
                "Use the same host in all redirect URIs, or register a sector identifier URI: "
                "pairwise subjects need one of them."
            ),
        ),
        "sector.list": FaultText(
            "an address that answers with a JSON array of addresses",
            translatable(
                "The sector identifier URI did not return a JSON array of URLs. Check it and try "
                "again."
            ),
        ),
        "sector.missing": FaultText(
            "a list with every redirect URI of the client in it",
            translatable(
                "The sector identifier URI does not list every redirect URI of the app. Add them "
                "there first."
            ),
        ),
        "sector.administrator": FaultText(
            "those that its sector lists; administrators can add others",
            translatable(
                "Use the redirect URIs that the sector of the app lists. Administrators can add "
                "others."
            ),
        ),
        "sector.changed": FaultText(
            "that of the client, which has just changed: try again",
            translatable("The sector identifier URI was just changed. Try again."),
        ),
        "logout.origin": FaultText(
            "an address with the scheme, host and port of one of the redirect URIs",
            translatable("Use the scheme, host and port of one of the redirect URIs."),
        ),
        "logout.uri": FaultText(
            "comes with %(name)s", translatable("Deselect this, or enter a value for %(name)s.")
        ),
        "group.self": FaultText(
            "another group", translatable("Choose another group: a group cannot contain itself.")
        ),
        "group.contains": FaultText(
            "none, because this group contains groups",
            translatable(
                "Leave this empty: a group that contains groups cannot be in another one."
            ),
        ),
        "group.nested": FaultText(
            "a group that is in none; this one is in %(parent)s",
            translatable("Choose a group that is in no other group: this one is in %(parent)s."),
        ),
        "group.none": FaultText(
            "groups that exist; there is no %(name)s",
            translatable("Enter existing groups: there is no group %(name)s."),
        ),
        "group.similar": FaultText(
            "an existing group, such as %(name)s",
            translatable("Enter an existing group. Did you mean %(name)s?"),
        ),
        "group.name": FaultText("the name of a group", translatable("Enter the name of a group.")),
        "username.taken": FaultText(
            "another one: this username or email address is taken",
            translatable("Choose another one: this username or email address is taken."),
        ),
        "attribute.none": FaultText(
            "a declared attribute; there is no %(name)s",
            translatable("Choose an existing attribute: there is no attribute %(name)s."),
        ),
        "email.recent": FaultText(
            "the right address of the user: it was changed in the last week",
            translatable(
                "Enter the correct email address of the user: it was changed in the last seven "
                "days."
            ),
        ),
        "event.unknown": FaultText(
            "the name of an event, which %(name)s is not",
            translatable("Enter the name of an event: there is no event %(name)s."),
        ),
        "setting.contradiction": FaultText(
            "another: %(reason)s",
            translatable(
                "Choose another value: this one does not fit the other settings (%(reason)s)."
            ),
        ),
        "schema.size": FaultText(
            "a JSON Schema of at most %(most)s bytes",
            translatable("Enter a JSON Schema of at most %(most)s bytes."),
        ),
        "schema.form": FaultText(
            "a JSON Schema that can be used: %(reason)s",
            translatable("This JSON Schema cannot be used: %(reason)s."),
        ),
        "schema.simple": FaultText(
            "false, or a schema with a type of %(known)s",
            translatable("Deselect this, or use one of these types in the schema: %(known)s."),
        ),
        "schema.value": FaultText(
            "a value that fits the schema of the attribute: %(reason)s",
            translatable("This value does not fit the schema of the attribute: %(reason)s."),
        ),
        "claim.name": FaultText(
            "a letter, then at most 199 letters, digits and _ . : / -",
            translatable(
                "Begin with a letter, and continue with at most 199 letters, digits and _ . : / -."
            ),
        ),
        "claim.reserved": FaultText(
            "another: %(name)s has a meaning of its own",
            translatable(
                "Choose another name: %(name)s is a standard claim with a meaning of its own."
            ),
        ),
        "claim.source": FaultText(
            "%(name)s, because that is what this claim means",
            translatable(
                "Choose another name, or the source %(name)s: this claim cannot have another "
                "source."
            ),
        ),
        "claim.roles": FaultText(
            "roles, because an access token has the roles at its own API",
            translatable(
                "Choose the roles at the API of the token, or do not include the claim in the "
                "access token."
            ),
        ),
        "claim.argument": FaultText(
            "a source, with a text if it needs one",
            translatable(
                "Choose a source, and enter its text if it needs one: a prefix, an identifier or "
                "at most 1,000 characters."
            ),
        ),
        "claim.kept": FaultText(
            "upstream: and a claim that keep_claims of a provider names",
            translatable(
                "Enter the ID of a sign-in provider, a colon and a claim that it stores, such as "
                "google:hd."
            ),
        ),
        "claim.introspection": FaultText(
            "introspection alone, for a claim from %(kind)s",
            translatable(
                "Select only the introspection response: a claim from this source cannot be "
                "anywhere else."
            ),
        ),
        "claim.access_token": FaultText(
            "access_token, whose claims are in introspection as well",
            translatable(
                "Select the access token instead of the introspection response, which has its "
                "claims as well."
            ),
        ),
        "secret.given": FaultText(
            "the client secret from the provider",
            translatable("Enter the client secret from the provider."),
        ),
        "json.duplicate": FaultText(
            "JSON without duplicate names in an object",
            translatable("Use each name in a JSON object only once."),
        ),
        "json.too_deep": FaultText(
            "JSON with at most %(most)s levels",
            translatable("Use at most %(most)s levels in the JSON text."),
        ),
        "json.integer": FaultText(
            "JSON with integers of at most 2**53",
            translatable("Use integers of at most 2**53 in the JSON text."),
        ),
        "json.number": FaultText(
            "JSON with numbers that fit a double",
            translatable("Use smaller numbers in the JSON text: this one does not fit a double."),
        ),
        "json.constant": FaultText(
            "JSON without NaN and Infinity",
            translatable("Remove NaN and Infinity from the JSON text."),
        ),
        "json.text": FaultText(
            "JSON without U+0000 and lone surrogates",
            translatable("Remove U+0000 and lone surrogates from the JSON text."),
        ),
        "json.object": FaultText("a JSON object", translatable("Enter a JSON object.")),
    }
)
"""The texts of each code of these rules."""

REDIRECT_URI: Mapping[str, str] = MappingProxyType(
    {
        "redirect_uri.scheme": translatable(
            "Only mobile and desktop apps can use a scheme of their own. Begin with https://."
        ),
        "redirect_uri.form": translatable(
            "Enter the complete URL, with scheme and host in lower case and without a username, "
            "such as https://app.example.com/callback."
        ),
        "redirect_uri.http": translatable(
            "http is only for 127.0.0.1, [::1] and localhost, while you develop. Use https."
        ),
        "redirect_uri.own": translatable(
            "This URL belongs to this server. Enter a URL of your app."
        ),
        "redirect_uri.length": translatable(
            "Use at most 2,000 characters; put variable data into the state parameter."
        ),
        "redirect_uri.ascii": translatable(
            "Enter an internationalized host name in its xn-- form, and percent-encode other "
            "non-ASCII characters."
        ),
        "redirect_uri.answer": translatable(
            "Remove parameters such as state, code and error from the URL: responses add them."
        ),
        "redirect_uri.fragment": translatable(
            "Remove # and everything after it: browsers do not send it."
        ),
        "redirect_uri.wildcard": translatable(
            "URLs must match exactly, and * is not a wildcard. Enter each URL, or put variable "
            "data into the state parameter."
        ),
        "redirect_uri.characters": translatable("Remove spaces and backslashes."),
    }
)
"""The sentences about a URL, by the check of `check_redirect_uri`, whose refusal has the text."""

SENTENCES: Mapping[str, str] = MappingProxyType(
    {**{code: text.sentence for code, text in FAULTS.items()}, **REDIRECT_URI}
)
"""The sentence of each code."""
