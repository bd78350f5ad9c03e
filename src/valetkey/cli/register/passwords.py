"""Passwords at the command line: typed twice, read from a pipe, or made; never an argument."""

import sys
from collections.abc import Mapping

import click

from valetkey.authorization.authentication.password import hash_password, password_problem
from valetkey.cli.register.store import Opened
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret, to_base64url

_BYTES = 15  # 120 random bits in twenty characters
_MOST_BYTES = 4_096


@click.command()
@click.option(
    "--password-stdin", "from_stdin", is_flag=True, help="Read the password from standard input."
)
@click.option(
    "--generate-password", "generate", is_flag=True, help="Make a password and print it once."
)
def _asks(**_: object) -> None: ...


OPTIONS = _asks.params
"""The options of commands that set a password; `obtain` reads them."""


def obtain(given: Mapping[str, object]) -> Secret:
    """Return the password given by the options. Raises Mistake for an invalid one."""
    from_stdin, generate = given["from_stdin"], given["generate"]
    if from_stdin and generate:
        raise Mistake("choose one of --password-stdin and --generate-password")
    if generate:
        return Secret(to_base64url(SYSTEM.random(_BYTES)))
    if from_stdin:
        text = sys.stdin.read(_MOST_BYTES).removesuffix("\n").removesuffix("\r")
    elif sys.stdin.isatty():
        text = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        raise Mistake(
            "no terminal to enter a password: use --password-stdin or --generate-password"
        )
    if problem := password_problem(text):
        raise Mistake(f"the password {problem}")
    return Secret(text)


def hashed(opened: Opened, password: Secret) -> str:
    """Return the hash to store; takes tens of milliseconds, so never inside a transaction."""
    return hash_password(password.reveal(), opened.settings.passwords, opened.runtime.random)
