"""Arguments and options of a command, derived from the input of its operation; never passwords."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, cast

import click
import msgspec
from msgspec import Struct, inspect

from valetkey.authorization.authentication.password import hash_password, password_problem
from valetkey.authorization.operations.command import Option
from valetkey.authorization.operations.operation import QueryParameter
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.cli.register.services import refused
from valetkey.cli.register.store import OpenedStore
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret, to_base64url

_NONE = "none"


class _OptionField(Struct, frozen=True):
    """A field that is one option, by its path in the input."""

    path: tuple[str, ...]
    field: inspect.Field
    option: Option

    @property
    def dest(self) -> str:
        """The name under which click passes the value on."""
        return "_".join(("input", *self.path))

    @property
    def flag(self) -> str:
        """The option, or the name of the argument."""
        if self.option.argument:
            return self.path[-1]
        if self.option.name:
            return self.option.name
        name = self.path[-1].replace("_", "-")
        if self.option.from_file:
            return f"--{name}-file"
        is_list = isinstance(_bare(self.field.type)[0], inspect.ListType)
        return f"--{name.removesuffix('s') if is_list else name}"

    def parameter(self) -> click.Parameter:
        """Return the argument or option of the field's type, with its bounds."""
        kind, nullable, text = _bare(self.field.type)
        if self.option.argument:
            return click.Argument(
                [self.dest], type=_click(kind, nullable), metavar=self.flag.upper()
            )
        more: dict[str, Any] = {"help": self.option.help or text, "required": self.field.required}
        names = [self.flag, self.dest]
        if self.option.from_file:
            more["help"] = f"{text.removesuffix('.')}, in a file; - for standard input."
            return click.Option(names, type=click.File(), callback=_content, **more)
        if isinstance(kind, inspect.BoolType):
            if self.field.default is not False:
                names[0] += "/" + self._opposite()
            return click.Option(names, is_flag=True, default=None, **more)
        if isinstance(kind, inspect.ListType):
            return click.Option(names, multiple=True, type=_click(kind.item_type), **more)
        if self.option.unit != 1 and isinstance(kind, inspect.IntType):
            most = None if kind.le is None else int(kind.le) // self.option.unit
            more |= {"type": click.IntRange(1, most), "required": False}
        else:
            more["type"] = click.STRING if self.option.user else _click(kind, nullable)
        if self.option.default is not None:
            more |= {"default": self.option.default, "show_default": True, "required": False}
        elif isinstance(self.field.default, int):
            more["show_default"] = str(self.field.default)
        return click.Option(names, **more)

    def value(self, said: object) -> object:
        """Convert the option's value to the type of the input."""
        kind, nullable, _ = _bare(self.field.type)
        if isinstance(kind, inspect.ListType):
            return [each for each in cast("tuple[object, ...]", said) if each != ""]
        if isinstance(kind, inspect.DictType | inspect.AnyType) and isinstance(said, str):
            return msgspec.json.decode(said)
        if nullable and said == _NONE:
            return None
        return said * self.option.unit if isinstance(said, int) and self.option.unit > 1 else said

    def _opposite(self) -> str:
        if self.flag.endswith("-verified"):
            return f"{self.flag.removesuffix('verified')}unverified"
        return f"--no-{self.flag.removeprefix('--')}"


def _content(_context: click.Context, _option: click.Parameter, file: IO[str] | None) -> str | None:
    """Read the file that an option names, so that no secret is in the list of processes."""
    return None if file is None else file.read(_MOST_BYTES).strip()


class Input(Struct, frozen=True):
    """The arguments and options that stand for the fields of one type."""

    kind: type[msgspec.Struct] | None
    options: Sequence[Option] = ()

    def parameters(self) -> list[click.Parameter]:
        """Return the parameters, arguments first."""
        made = [leaf.parameter() for leaf in self._leaves()]
        return sorted(made, key=lambda each: isinstance(each, click.Option))

    def users(self, given: Mapping[str, object]) -> Mapping[str, str]:
        """Return the parameters that name a user, with their values."""
        leaves = [each for each in self._leaves() if each.option.user]
        return {each.dest: str(given[each.dest]) for each in leaves if given[each.dest] is not None}

    def value(self, given: Mapping[str, object]) -> Any:
        """Return the input; None if the operation takes none.

        Raises OperatorError with all faults.
        """
        if self.kind is None:
            return None
        values: dict[str, Any] = {}
        leaves = list(self._leaves())
        for leaf in leaves:
            said = given[leaf.dest]
            if said is None or said == ():
                continue
            *above, name = leaf.path
            place = values
            for each in above:
                place = place.setdefault(each, {})
            try:
                place[name] = leaf.value(said)
            except msgspec.DecodeError:
                raise OperatorError(f"{leaf.flag}: JSON") from None
        return self._converted(values)

    def named(self, fault: MetadataError) -> MetadataError:
        """Return the fault with the option in place of its field."""
        path = tuple(step for step in fault.field.split("/") if not step.isdigit())
        for leaf in self._leaves():
            if leaf.path == path:
                return MetadataError(leaf.flag, fault.detail)
        return fault

    def _converted(self, values: dict[str, Any]) -> Any:
        if self.kind is None:
            return None
        try:
            return msgspec.convert(values, type=self.kind)
        except msgspec.ValidationError as error:
            raise refused(map(self.named, faults_of(error, values, self.kind))) from None

    def _leaves(self) -> Iterator[_OptionField]:
        if self.kind is not None:
            yield from self._below(inspect.type_info(self.kind), ())

    def _below(self, kind: inspect.Type, above: tuple[str, ...]) -> Iterator[_OptionField]:
        for field in kind.fields if isinstance(kind, inspect.StructType) else ():
            path = (*above, field.encode_name)
            bare = _bare(field.type)[0]
            if isinstance(bare, inspect.StructType):
                yield from self._below(bare, path)
                continue
            dotted = ".".join(path)
            option = next((each for each in self.options if each.field == dotted), Option(dotted))
            yield _OptionField(path, field, option)


def query_option(parameter: QueryParameter, option: Option | None = None) -> click.Option:
    """Return the option of a query parameter, with its bounds; `option` may describe it."""
    schema = parameter.schema
    kind: click.ParamType[Any] = click.STRING
    if schema.get("type") == "integer":
        kind = click.IntRange(cast("int", schema["minimum"]), cast("int", schema["maximum"]))
    elif schema.get("type") == "boolean":
        kind = click.Choice(["true", "false"])
    elif "enum" in schema:
        kind = click.Choice(cast("list[str]", schema["enum"]))
    name = parameter.name.replace("_", "-")
    text = parameter.description if option is None else option.help
    return click.Option([f"--{name}", f"query_{parameter.name}"], type=kind, help=text)


def _bare(kind: inspect.Type) -> tuple[inspect.Type, bool, str]:
    """Return the type without null, whether null is allowed, and its description."""
    text = ""
    if isinstance(kind, inspect.Metadata):
        extra = cast("Mapping[str, object] | None", getattr(kind, "extra_json_schema", None))
        text = str((extra or {}).get("description", ""))
        kind = kind.type
    if not isinstance(kind, inspect.UnionType):
        return kind, False, text
    others = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    inner, _, more = _bare(others[0])
    return inner, len(others) < len(kind.types), text or more


def _click(kind: inspect.Type, nullable: bool = False) -> "click.ParamType[Any]":
    kind = _bare(kind)[0]
    none = [_NONE] if nullable else []
    if isinstance(kind, inspect.EnumType):
        return click.Choice([*(str(each.value) for each in kind.cls), *none])
    if isinstance(kind, inspect.LiteralType):
        return click.Choice([*(str(each) for each in kind.values), *none])
    if isinstance(kind, inspect.IntType):
        low, high = kind.ge, kind.le
        return click.IntRange(
            None if low is None else int(low), None if high is None else int(high)
        )
    return click.STRING


_BYTES = 15  # 120 random bits in twenty characters
_MOST_BYTES = 4_096


@click.command()
@click.option(
    "--password-stdin", "from_stdin", is_flag=True, help="Read the password from standard input."
)
@click.option(
    "--generate-password", "generate", is_flag=True, help="Generate a password and print it once."
)
def _asks(**_: object) -> None: ...


OPTIONS = _asks.params
"""The options of commands that set a password; `obtain` reads them."""


def obtain(given: Mapping[str, object]) -> Secret:
    """Return the password given by the options. Raises OperatorError for an invalid one."""
    from_stdin, generate = given["from_stdin"], given["generate"]
    if from_stdin and generate:
        raise OperatorError("choose one of --password-stdin and --generate-password")
    if generate:
        return Secret(to_base64url(SYSTEM.random(_BYTES)))
    if from_stdin:
        text = sys.stdin.read(_MOST_BYTES).removesuffix("\n").removesuffix("\r")
    elif sys.stdin.isatty():
        text = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        raise OperatorError(
            "no terminal to enter a password: use --password-stdin or --generate-password"
        )
    if problem := password_problem(text):
        raise OperatorError(f"the password {problem}")
    return Secret(text)


def hashed(opened: OpenedStore, password: Secret) -> str:
    """Return the hash to store; takes tens of milliseconds, so never inside a transaction."""
    return hash_password(password.reveal(), opened.settings.passwords, opened.runtime.random)
