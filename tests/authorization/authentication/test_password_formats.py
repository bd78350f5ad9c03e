"""Hashes of other software: what is verified, what is refused, and that each is renewed."""

import base64
import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2d, Argon2i, Argon2id
from django.contrib.auth import hashers

from valetkey.authorization.authentication.password import is_current, verify
from valetkey.authorization.authentication.password_formats import is_foreign, verify_foreign
from valetkey.config.settings import PasswordSettings

SETTINGS = PasswordSettings()
PASSWORD = b"correct horse"
SALT = b"0123456789abcdef"
DIGEST = hashlib.pbkdf2_hmac("sha256", PASSWORD, SALT, 1_000, 32)


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
    "PBKDF2 as PHC": f"$pbkdf2-sha256$i=1000,l=32${plain(SALT)}${plain(DIGEST)}",
    "PBKDF2 by passlib": f"$pbkdf2-sha256$1000${plain(SALT)}${plain(DIGEST)}".replace("+", "."),
    "PBKDF2 with SHA-1 by passlib": f"$pbkdf2$1000${plain(SALT)}$"
    + plain(hashlib.pbkdf2_hmac("sha1", PASSWORD, SALT, 1_000, 20)).replace("+", "."),
    "scrypt as PHC": f"$scrypt$ln=10,r=8,p=2${plain(SALT)}${plain(scrypt(1_024, 8, 2))}",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_foreign_hash_fits_its_password_only_and_is_to_be_renewed(name: str) -> None:
    stored = GOOD[name]
    assert is_foreign(stored)
    assert verify(PASSWORD, stored, SETTINGS)
    assert not verify(b"correct horsf", stored, SETTINGS)
    assert not is_current(stored, SETTINGS)


@pytest.mark.parametrize(
    "hasher",
    [hashers.PBKDF2PasswordHasher, hashers.PBKDF2SHA1PasswordHasher, hashers.ScryptPasswordHasher],
)
def test_a_hash_of_django_fits_its_password_only(hasher: Any) -> None:
    made = hasher()
    made.iterations = 1_000
    stored = made.encode(PASSWORD.decode(), "s4lt4Tests")
    assert is_foreign(stored)
    assert verify(PASSWORD, stored, SETTINGS)
    assert not verify(b"correct horsf", stored, SETTINGS)


# From the test vectors of jBCrypt.
ABC = "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"
ALPHABET = "$2a$06$.rCVZVOThsIa97pEDOxvGuRRgzG64bvtJ0938xuqzv18d3ZpQhstC"


@pytest.mark.parametrize(
    ("password", "stored"),
    [
        (b"abc", ABC),
        (b"abc", ABC.replace("$2a$", "$2b$")),
        (b"abc", ABC.replace("$2a$", "$2y$")),
        (b"abc", f"bcrypt${ABC}"),
        (b"abcdefghijklmnopqrstuvwxyz", ALPHABET),
    ],
)
def test_bcrypt_fits_its_password_only(password: bytes, stored: str) -> None:
    assert is_foreign(stored)
    assert verify(password, stored, SETTINGS)
    assert not verify(password + b".", stored, SETTINGS)


def test_djangos_bcrypt_of_sha256_is_verified() -> None:
    # Made by BCryptSHA256PasswordHasher of Django 5.2 with 4 rounds.
    stored = "bcrypt_sha256$$2b$04$BpMZhHKtH/fJTCvx6mXV2u543.lKixvDgRqT10ukOFXimVPezee8i"
    assert is_foreign(stored)
    assert verify(PASSWORD, stored, SETTINGS)
    assert not verify(b"correct horsf", stored, SETTINGS)


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
def test_any_other_text_is_no_hash(stored: str) -> None:
    assert not is_foreign(stored)
    # Not `verify`: what begins like our own was judged by its cost before it was stored.
    assert not verify_foreign(PASSWORD, stored)
