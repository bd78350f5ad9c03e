"""The arguments and options of commands, derived from the input types of operations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, cast

import click
import msgspec
from msgspec import Struct, inspect

from valetkey.authorization.operations.operation import Option, QueryParameter
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.cli import options
from valetkey.cli.register.store import refused
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace

MOST_BYTES = 4_096
"""Maximum size of a value that is read from a file or from standard input."""


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
        if self.option.duration and isinstance(kind, inspect.IntType):
            return click.Option(names, **more, **_duration(kind, self.field.default, nullable))
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

    def value(self, value: object) -> object:
        """Convert the option's value to the type of the input."""
        kind, nullable, _ = _bare(self.field.type)
        if isinstance(kind, inspect.ListType):
            return options.entries(map(str, cast("tuple[object, ...]", value)))
        if isinstance(kind, inspect.DictType | inspect.AnyType) and isinstance(value, str):
            return msgspec.json.decode(value)
        if isinstance(value, str):
            value = value.strip()
        if nullable and value == options.NONE:
            return None
        return (
            value * self.option.unit if isinstance(value, int) and self.option.unit > 1 else value
        )

    def _opposite(self) -> str:
        if self.flag.endswith("-verified"):
            return f"{self.flag.removesuffix('verified')}unverified"
        return f"--no-{self.flag.removeprefix('--')}"


def _content(_context: click.Context, _option: click.Parameter, file: IO[str] | None) -> str | None:
    """Read the file that an option names, so that no secret is in the list of processes."""
    return None if file is None else file.read(MOST_BYTES).strip()


class Input(Struct, frozen=True):
    """The arguments and options that stand for the fields of one type."""

    kind: type[msgspec.Struct] | None
    options: Sequence[Option] = ()

    def parameters(self) -> list[click.Parameter]:
        """Return the parameters, arguments first."""
        made = [leaf.parameter() for leaf in self._leaves()]
        return sorted(made, key=lambda parameter: isinstance(parameter, click.Option))

    def users(self, arguments: Mapping[str, object]) -> Mapping[str, str]:
        """Return the parameters that name a user, with their values."""
        leaves = [leaf for leaf in self._leaves() if leaf.option.user]
        return {
            leaf.dest: str(arguments[leaf.dest])
            for leaf in leaves
            if arguments[leaf.dest] is not None
        }

    def value(self, arguments: Mapping[str, object]) -> Any:
        """Return the input; None if the operation takes none.

        Raises OperatorError with all faults.
        """
        if self.kind is None:
            return None
        values: dict[str, Any] = {}
        leaves = list(self._leaves())
        for leaf in leaves:
            value = arguments[leaf.dest]
            if value is None or value == ():
                continue
            *above, name = leaf.path
            members = values
            for step in above:
                members = members.setdefault(step, {})
            try:
                members[name] = leaf.value(value)
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
            faults = faults_of(error, values, self.kind)
            raise refused(self._repeating(self.named(it), it, values) for it in faults) from None

    def _repeating(
        self, named: MetadataError, error: MetadataError, values: Mapping[str, Any]
    ) -> MetadataError:
        """Return the fault of an option, which may name several entries of a list at once."""
        name, _, number = error.field.partition("/")
        listed = values.get(name)
        if not isinstance(listed, list) or not number.isdecimal():
            return named
        if not set(", ;") & set(str(cast("list[object]", listed)[int(number)])):
            return named
        return replace(named, detail=f"{named.detail}; repeat {named.field} for each of several")

    def _leaves(self) -> Iterator[_OptionField]:
        if self.kind is not None:
            yield from self._below(inspect.type_info(self.kind), ())

    def _below(self, kind: inspect.Type, above: tuple[str, ...]) -> Iterator[_OptionField]:
        for member in kind.fields if isinstance(kind, inspect.StructType) else ():
            path = (*above, member.encode_name)
            bare = _bare(member.type)[0]
            if isinstance(bare, inspect.StructType):
                yield from self._below(bare, path)
                continue
            dotted = ".".join(path)
            option = next(
                (
                    command_option
                    for command_option in self.options
                    if command_option.field == dotted
                ),
                Option(dotted),
            )
            yield _OptionField(path, member, option)


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
    others = [
        alternative for alternative in kind.types if not isinstance(alternative, inspect.NoneType)
    ]
    inner, _, more = _bare(others[0])
    return inner, len(others) < len(kind.types), text or more


def _duration(kind: inspect.IntType, default: object, nullable: bool) -> dict[str, Any]:
    """Return the type and the default of the option of a duration."""
    least, most = int(kind.ge or 0), None if kind.le is None else int(kind.le)
    return {
        "type": options.Duration(least, most, nullable=nullable),
        "show_default": options.duration(default) if isinstance(default, int) else None,
    }


def _click(kind: inspect.Type, nullable: bool = False) -> "click.ParamType[Any]":
    kind = _bare(kind)[0]
    none = [options.NONE] if nullable else []
    if isinstance(kind, inspect.EnumType):
        return click.Choice([*(str(member.value) for member in kind.cls), *none])
    if isinstance(kind, inspect.LiteralType):
        return click.Choice([*(str(value) for value in kind.values), *none])
    if isinstance(kind, inspect.IntType):
        low, high = kind.ge, kind.le
        return click.IntRange(
            None if low is None else int(low), None if high is None else int(high)
        )
    return click.STRING
