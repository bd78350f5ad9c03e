"""Hashes of other software: what is verified, what is refused, and that each is renewed."""

import base64
import ctypes
import hashlib
import unicodedata
from typing import Any, Literal

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2d, Argon2i, Argon2id
from django.contrib.auth import hashers
from hypothesis import given, settings
from hypothesis import strategies as st

from valetkey.authorization.authentication import password_formats
from valetkey.authorization.authentication.password import is_current, verify
from valetkey.authorization.authentication.password_formats import (
    OWN,
    HashFault,
    StoredHash,
    read_hash,
)
from valetkey.config.settings import PasswordSettings

SETTINGS = PasswordSettings()
_HORSE = "correct horse"
PASSWORD = _HORSE.encode()
SALT = b"0123456789abcdef"
DIGEST = hashlib.pbkdf2_hmac("sha256", PASSWORD, SALT, 1_000, 32)


def found(stored: str) -> StoredHash | str:
    """What an import finds: the hash, or the code of why it is refused."""
    try:
        return read_hash(stored)
    except HashFault as fault:
        return fault.code


def is_good(stored: str) -> bool:
    return isinstance(found(stored), StoredHash)


def plain(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def argon2(kind: type[Argon2id | Argon2i | Argon2d]) -> str:
    made = kind(salt=SALT, length=32, iterations=2, lanes=4, memory_cost=1_024)
    return made.derive_phc_encoded(PASSWORD)


def scrypt(n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(PASSWORD, salt=SALT, n=n, r=r, p=p, dklen=32)


GOOD = {
    "argon2id with other costs": argon2(Argon2id),
    "argon2i": argon2(Argon2i),
    "argon2d": argon2(Argon2d),
    "Argon2 by Django": "argon2" + argon2(Argon2id),
    "Argon2 with its parameters in another order": argon2(Argon2id).replace(
        "m=1024,t=2,p=4", "p=4,t=2,m=1024"
    ),
    "Argon2 with padding": argon2(Argon2id).replace("ZWY$", "ZWY=$"),
    "Argon2 of an LDAP server": "{ARGON2}" + argon2(Argon2id),
    "PBKDF2 with its parameters in another order": f"$pbkdf2-sha256$l=32,i=1000${plain(SALT)}"
    f"${plain(DIGEST)}",
    "PBKDF2 as PHC": f"$pbkdf2-sha256$i=1000,l=32${plain(SALT)}${plain(DIGEST)}",
    "PBKDF2 by passlib": f"$pbkdf2-sha256$1000${plain(SALT)}${plain(DIGEST)}".replace("+", "."),
    "PBKDF2 with SHA-1 by passlib": f"$pbkdf2$1000${plain(SALT)}$"
    + plain(hashlib.pbkdf2_hmac("sha1", PASSWORD, SALT, 1_000, 20)).replace("+", "."),
    **{
        f"PBKDF2 with {name} as PHC": f"$pbkdf2-{name}$i=1000${plain(SALT)}$"
        + plain(hashlib.pbkdf2_hmac(name, PASSWORD, SALT, 1_000))
        for name in ("sha224", "sha384")
    },
    "scrypt with N instead of its logarithm": f"$scrypt$ln=1024,r=8,p=2${plain(SALT)}="
    f"${plain(scrypt(1_024, 8, 2))}=",
    "scrypt as PHC": f"$scrypt$ln=10,r=8,p=2${plain(SALT)}${plain(scrypt(1_024, 8, 2))}",
}


@pytest.mark.parametrize("name", GOOD)
def test_imported_hash_verifies_only_its_password_and_is_outdated(name: str) -> None:
    stored = GOOD[name]
    assert is_good(stored)
    assert verify(_HORSE, stored, SETTINGS)
    assert not verify("correct horsf", stored, SETTINGS)
    assert not is_current(stored, SETTINGS)


@pytest.mark.parametrize(
    "hasher",
    [hashers.PBKDF2PasswordHasher, hashers.PBKDF2SHA1PasswordHasher, hashers.ScryptPasswordHasher],
)
def test_django_hash_verifies_only_its_password(hasher: Any) -> None:
    made = hasher()
    made.iterations = 1_000
    stored = made.encode(PASSWORD.decode(), "s4lt4Tests")
    assert is_good(stored)
    assert verify(_HORSE, stored, SETTINGS)
    assert not verify("correct horsf", stored, SETTINGS)


# Made by Werkzeug, passlib, crypt(3) and `openssl passwd`; or from the tests of the named software.
_KNOWN = [
    (
        "scrypt of Werkzeug",
        _HORSE,
        "scrypt:1024:8:1$HY8xuTvg$264a8ca44051f80fa400f23b3cad1202e8d5560e7e72124d64dbf5ed3e916a3394e985296902568f5258714a25c595efd859b67642ffa29ed1f16b9fcf07227b",
    ),
    (
        "PBKDF2 with SHA-1 of Werkzeug",
        _HORSE,
        "pbkdf2:sha1:1000$8e7DWBQI$f039695b10fa74e882c129c809ecc346472d2a17",
    ),
    (
        "PBKDF2 with SHA-256 of Werkzeug",
        _HORSE,
        "pbkdf2:sha256:1000$AwnDVG21$0ede6b695e4b7229ca46a733cda54e16b77220a4ceeac4ed29f1100d45fb0812",
    ),
    (
        "PBKDF2 with SHA-512 of Werkzeug",
        _HORSE,
        "pbkdf2:sha512:1000$5FmmcqX4$656b7e08c59fbf36e70df533cda82edcbaf632a9279a8d056f4a379627df2bb2c40808b1cca2a9a64dcc0a9a0e2678bb44ac2904daa29ec57fea68aa1ea48e38",
    ),
    (
        "SHA-512-crypt with rounds",
        _HORSE,
        "$6$rounds=1000$saltForTests$kara04ZVdyw1RDH2dKf9uHVOEu6wA0.5ErnuD6iWcPcZCNPDA67/mysN9LBULMu2PbtKC4vplSa6oBAS7tXOu0",
    ),
    (
        "SHA-512-crypt",
        _HORSE,
        "$6$saltForTests$kk2ZqD59QZkclZDtsfGBA2OvvCzGKte6KSVlHlrwBp7LzItpTbQ3GDHoJDbBrX7mku.Ow8b8UcMD9wxGp4ioN.",
    ),
    (
        "SHA-256-crypt",
        _HORSE,
        "$5$rounds=1000$saltForTests$YgNLuOGvM1ulxRLpTfwniWoH8JZAWHfCTlFQ/v1rsA/",
    ),
    ("MD5-crypt", _HORSE, "$1$saltTest$flkfxK5.QOCmcLsEBmpfe."),
    ("apr1", _HORSE, "$apr1$saltTest$DyF0UQjf3bhIiiHg17Drv/"),
    ("phpass of WordPress", _HORSE, "$P$6saltTest1nCzOLugpk4YQBzlDGp05/"),
    ("phpass of phpBB", _HORSE, "$H$6saltTest1nCzOLugpk4YQBzlDGp05/"),
    ("salted SHA", _HORSE, "{SSHA}awc/Cj0kafyFd5d8fGn07xoHBJJzYWx0c2FsdA=="),
    ("salted SHA-256", _HORSE, "{SSHA256}YflVcOMs6k7tbGkQbQNVn6/ehAnUAVltiLPKHBWGi2tzYWx0c2FsdA=="),
    (
        "salted SHA-512",
        _HORSE,
        "{SSHA512}50rsRNBf8j3I5xE+QwaHdFyMhOzITssZ8BB3UxwQ+SI1JKygYm6ZeRYTDuUyFZIIqDonoTuXwB0Z/MAPhgQCFHNhbHRzYWx0",
    ),
    (
        "scrypt of Kratos",
        "test",
        (
            "$scrypt$ln=16384,r=8,p=1$2npRo7P03Mt8keSoMbyD/tKFWyUzjiQf2svUaNDSrhA="
            "$MiCzNcIplSMqSBrm4HckjYqYhaVPPjTARTzwB1cVNYE="
        ),
    ),
    (
        "scrypt of Firebase",
        "user1password",
        (
            "$firescrypt$ln=14,r=8,p=1$42xEC+ixf3L2lw=="
            "$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="
            "$Bw=="
            "$jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA=="
        ),
    ),
    ("phpass of Drupal", "boat2020;A", "$S$D.oOkSJYpbtcVkh0TXSm8BzRKYpsEHrrqPRiaDmiqr.GVE3QisdC"),
    (
        "bcrypt of WordPress",
        "test123",
        "$wp$2y$10$v719Zyb/5DiglXjaGmtVoO.58ZfZLBkfIyjXnYyIbWYYFsofeucua",
    ),
    (
        "ASP.NET Identity version 2",
        "my password",
        "ANXrDknc7fGPpigibZXXZFMX4aoqz44JveK6jQuwY3eH/UyPhvr5xTPeGYEckLxz9A==",
    ),
    (
        "ASP.NET Identity version 3 with SHA-1",
        "my password",
        "AQAAAAAAAAD6AAAAEAhftMyfTJylOlZT+eEotFXd1elee8ih5WsjXaR3PA9M",
    ),
    (
        "ASP.NET Identity version 3 with SHA-256",
        "my password",
        "AQAAAAEAACcQAAAAEAABAgMEBQYHCAkKCwwNDg+yWU7rLgUwPZb1Itsmra7cbxw2EFpwpVFIEtP+JIuUEw==",
    ),
    (
        "ASP.NET Identity version 3 with SHA-512",
        "my password",
        (
            "AQAAAAIAAAD6AAAAIJbVi5wbMR+htSfFp8fTw8N8GOS/Sje+S/4YZcgBfU7EQuqv4OkVYmc4VJl9AGZzmRTxSkP7"
            "LtVi9IWyUxX8IAAfZ8v+ZfhjCcudtC1YERSqE1OEdXLW9VukPuJWBBjLuw=="
        ),
    ),
]
# From the test vectors of jBCrypt.
ABC = "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"
ALPHABET = "$2a$06$.rCVZVOThsIa97pEDOxvGuRRgzG64bvtJ0938xuqzv18d3ZpQhstC"
_BCRYPT = [
    ("bcrypt", "abc", ABC),
    ("bcrypt 2b", "abc", ABC.replace("$2a$", "$2b$")),
    ("bcrypt 2y", "abc", ABC.replace("$2a$", "$2y$")),
    ("bcrypt of Django", "abc", f"bcrypt${ABC}"),
    ("bcrypt of Spring", "abc", f"{{bcrypt}}{ABC}"),
    ("bcrypt of an LDAP server", "abc", f"{{CRYPT}}{ABC}"),
    ("bcrypt with unused bits in its salt", "abc", ABC.replace("DeDu0YH", "DeDv0YH")),
    ("bcrypt of the alphabet", "abcdefghijklmnopqrstuvwxyz", ALPHABET),
    # Made by BCryptSHA256PasswordHasher of Django 5.2 with 4 rounds.
    (
        "bcrypt of SHA-256 of Django",
        _HORSE,
        "bcrypt_sha256$$2b$04$BpMZhHKtH/fJTCvx6mXV2u543.lKixvDgRqT10ukOFXimVPezee8i",
    ),
]


@pytest.mark.parametrize(
    ("password", "stored"), [pytest.param(*it[1:], id=it[0]) for it in (*_KNOWN, *_BCRYPT)]
)
def test_known_hash_verifies_only_its_password(password: str, stored: str) -> None:
    assert is_good(stored)
    assert verify(password, stored, SETTINGS)
    assert not verify(f"{password}.", stored, SETTINGS)
    assert not is_current(stored, SETTINGS)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_password_is_verified_in_the_form_that_was_hashed(
    form: Literal["NFC", "NFD", "NFKC"],
) -> None:
    typed = "Ｍüßig ﬁn \N{ANGSTROM SIGN}"
    hashed = unicodedata.normalize(form, typed).encode()
    digest = plain(hashlib.pbkdf2_hmac("sha256", hashed, SALT, 1_000))
    stored = f"$pbkdf2-sha256$i=1000${plain(SALT)}${digest}"
    assert verify(typed, stored, SETTINGS)
    assert verify(unicodedata.normalize("NFD", typed), stored, SETTINGS)
    assert not verify(typed.upper(), stored, SETTINGS)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_own_argon2_hash_is_not_compared_in_compatibility_form(form: Literal["NFC", "NFD"]) -> None:
    typed = "M\u00fc\u00dfig correct horse"
    made = Argon2id(salt=SALT, length=32, iterations=1, lanes=1, memory_cost=64)
    stored = made.derive_phc_encoded(unicodedata.normalize(form, typed).encode())
    assert verify(typed, stored, SETTINGS)
    assert not verify(typed.replace(" ", "\u00a0"), stored, SETTINGS)


def test_password_that_was_hashed_as_typed_is_verified() -> None:
    # NFC writes this letter as two, and no form of Unicode has it as typed.
    typed = "\N{DEVANAGARI LETTER QA} correct horse"
    digest = plain(hashlib.pbkdf2_hmac("sha256", typed.encode(), SALT, 1_000))
    assert verify(typed, f"$pbkdf2-sha256$i=1000${plain(SALT)}${digest}", SETTINGS)


@pytest.mark.parametrize(
    "stored", ["$P$6saltTestrIJDXJPuQVjQFsRiRBMKy/", "$P$6saltTestd1jR2XvkYkJC5F86BKqIu0"]
)
def test_wordpress_hashes_without_outer_space_and_with_slashes(stored: str) -> None:
    assert verify(" O'Brien's horse ", stored, SETTINGS)
    assert not verify("OBriens horse", stored, SETTINGS)


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "correct horse",
        "md5$salt$39fd9ec0a98a4f5393ad4fcf70c0c077",
        "!unusable",
        # Costs that would hold up a core, or the machine.
        argon2(Argon2id).replace("m=1024", "m=1048576"),
        argon2(Argon2id).replace("t=2", "t=999").replace("m=1024", "m=65536"),
        f"$pbkdf2-sha256$i=9000000${plain(SALT)}${plain(DIGEST)}",
        f"$scrypt$ln=20,r=8,p=1${plain(SALT)}${plain(DIGEST)}",
        # A salt that Argon2 refuses, and an N that scrypt refuses.
        argon2(Argon2id).replace(plain(SALT), "c2FsdA"),
        argon2(Argon2id).replace("m=1024", "m=31"),
        argon2(Argon2id).replace("p=4", "p=0"),
        argon2(Argon2id).replace("t=2", "t=0"),
        argon2(Argon2id).replace("t=2", "m=1024"),
        argon2(Argon2id).replace("v=19", "v=16"),
        f"$scrypt$ln=16,r=1,p=1${plain(SALT)}${plain(DIGEST)}",
        f"$scrypt$ln=1000,r=8,p=1${plain(SALT)}${plain(DIGEST)}",
        f"$scrypt$ln=0,r=8,p=1${plain(SALT)}${plain(DIGEST)}",
        f"$scrypt$ln=31,r=8,p=1${plain(SALT)}${plain(DIGEST)}",
        f"scrypt:1073741824:8:1$salt${DIGEST.hex()}",
        f"$pbkdf2-sha1$i=400000${plain(SALT)}${plain(DIGEST * 8)}",
        f"pbkdf2:sha256:9000000$salt${DIGEST.hex()}",
        f"pbkdf2:sha256:1000$salt${DIGEST.hex()[:-1]}",
        "$6$rounds=999999999$saltForTests$" + "a" * 86,
        "$6$rounds=999$saltForTests$" + "a" * 86,
        "$P$TsaltTest1nCzOLugpk4YQBzlDGp05/",
        "{SSHA}awc/Cj0kafyFd5d8fGn07xoHBJI=",
        "{SSHA}awc/Cj0=",
        "AQAAAAEHW80VAAAAEAABAgMEBQYHCAkKCwwNDg+yWU7rLgUwPZb1Itsmra7cbxw2EFpwpVFIEtP+JIuUEw==",
        "AQAAAAkAACcQAAAAEAABAgMEBQYHCAkKCwwNDg+yWU7rLgUwPZb1Itsmra7cbxw2EFpwpVFIEtP+JIuUEw==",
        "AQAAAAIAAAAyAAAAEOMwvh3+FZxqkdMBz2ekgGhwQ4A=",
        f"$scrypt$ln=17,r=8,p=99${plain(SALT)}${plain(DIGEST)}",
        f"scrypt$1000$salt$8$1${plain(DIGEST)}",
        ABC.replace("$06$", "$31$"),
        # Nothing to compare with: every password would fit.
        f"$pbkdf2-sha256$i=1000${plain(SALT)}$AAAA",
        f"$pbkdf2-sha256$i=0${plain(SALT)}${plain(DIGEST)}",
        f"$pbkdf2-md5$i=1000${plain(SALT)}${plain(DIGEST)}",
        ABC[:-1],
        f"{ABC}\n",
        f"$pbkdf2-sha256$i=1000${plain(SALT)}${plain(DIGEST)}" + "A" * 2_000,
    ],
)
def test_unsupported_or_costly_hash_is_refused(stored: str) -> None:
    assert isinstance(found(stored), str)


@pytest.mark.parametrize(
    ("stored", "code"),
    [
        ("plain", "row.hash"),
        (argon2(Argon2id).replace("m=1024", "m=1048576"), "row.hash.cost"),
        (argon2(Argon2id).replace(plain(SALT), "c2FsdA"), "row.hash.broken"),
    ],
)
def test_refused_hash_has_a_reason(stored: str, code: str) -> None:
    assert found(stored) == code


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "plain",
        "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$MDEyMzQ1Njc4OWFiY2RlZg",
        "$argon2id$v=19$m=1,t=0,p=9$c2FsdA$",
        "$argon2id$",
        f"$scrypt$ln=16,r=1,p=1${plain(SALT)}${plain(DIGEST)}",
        "$argon2id$v=19$m=4294967295,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$2b$04$" + "\N{LATIN SMALL LETTER E WITH ACUTE}" * 53,
    ],
)
def test_malformed_or_different_stored_hash_is_not_verified(stored: str) -> None:
    assert not verify(_HORSE, stored, SETTINGS)


_NUMBERS = st.integers(0, 40).map(str)
_TEXT = st.binary(max_size=40).map(plain)
_SHAPES = (
    st.builds(
        "$argon2id$v=19$m={},t={},p={}${}${}".format, _NUMBERS, _NUMBERS, _NUMBERS, _TEXT, _TEXT
    ),
    st.builds(
        "$scrypt$ln={},r={},p={}${}${}".format, st.integers(0, 9), _NUMBERS, _NUMBERS, _TEXT, _TEXT
    ),
    st.builds(
        "$scrypt$ln={},r={},p={}${}${}".format, _NUMBERS, st.just(1), st.just(1), _TEXT, _TEXT
    ),
    st.builds(
        "$firescrypt$ln={},r={},p=1${}${}${}${}".format,
        st.integers(0, 9),
        st.integers(0, 3),
        _TEXT,
        _TEXT,
        _TEXT,
        _TEXT,
    ),
    st.builds("$pbkdf2-sha1$i={}${}${}".format, _NUMBERS, _TEXT, _TEXT),
    st.builds(
        "scrypt:{}:{}:{}$s${}".format,
        _NUMBERS,
        _NUMBERS,
        _NUMBERS,
        st.binary(max_size=40).map(bytes.hex),
    ),
    st.builds("{{SSHA}}{}".format, _TEXT),
    st.binary(min_size=30, max_size=90).map(
        lambda it: base64.b64encode(b"\1\0\0\0\1\0\0" + it).decode()
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(*_SHAPES))
def test_every_accepted_hash_can_be_verified(stored: str) -> None:
    kept = found(stored)
    if isinstance(kept, StoredHash):
        assert kept.matches(PASSWORD) in {True, False}


@pytest.mark.parametrize("rounds", ["", "rounds=1000$"])
@pytest.mark.parametrize("salt", ["a", "./aZ09./aZ09./aZ"])
def test_accepted_crypt_settings_are_supported_by_the_system(rounds: str, salt: str) -> None:
    for kind, size in (("6", 86), ("5", 43)):
        setting = f"${kind}${rounds}{salt}$"
        kept = found(setting + "." * size)
        assert isinstance(kept, StoredHash)
        assert _crypt(setting).startswith(setting)
        assert verify(_HORSE, _crypt(setting), SETTINGS)


def _crypt(setting: str) -> str:
    library = password_formats._library()
    assert library is not None
    state = ctypes.create_string_buffer(256 * 1024)
    made: bytes = library.crypt_r(PASSWORD, setting.encode(), state)
    return made.decode()


def test_own_hash_is_verified_at_any_cost_that_the_settings_allow() -> None:
    stored = argon2(Argon2id).replace("m=1024", "m=1048576").replace("t=2", "t=20")
    assert found(stored) == "row.hash.cost"
    assert read_hash(stored, OWN).format == "Argon2"
