"""CLI command of an operation, where the command derived from its row does not fit.

Name, arguments, options, help, confirmation and output derive from the row; a `Command` overrides
them for compatibility with scripts or for readability.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from valetkey.config.settings import Settings


class Option(Struct, frozen=True):
    """The option for a field of the input; `address.formatted` is a field of a field.

    Also that for an argument of the path, which is positional without one, and for a parameter of
    the query.

    `name` is the option, such as `--days`; "" for the field's own name. An `argument` is
    positional. One `from_file` names a file with the value, - for standard input. A number is
    entered in `unit` seconds, as is `default`. A `user` is named as everywhere on the command line,
    and converted to a uid.
    """

    field: str
    name: str = ""
    help: str = ""
    argument: bool = False
    unit: int = 1
    default: int | None = None
    user: bool = False
    from_file: bool = False


class Command(Struct, frozen=True):
    """A command that runs an operation. Empty texts are derived from the row.

    `name` includes the group: `client verify`. `summary` is the first line of the help. If two rows
    have the same name, one is `off`: it runs with `--off`. `path_arguments` are those that the
    command itself sets. `question` is asked first; without one, the text of a button that is marked
    as dangerous, unless `confirms` is False. `done` and `unchanged` may name arguments, fields of
    the input and of the result in braces, as may `note`, which is written to standard error like
    `remark`, a remark about the settings. `columns` are heading and field of the table of a list,
    `empty` is printed if it has no rows; of one record, they are the fields that are printed,
    above its `documents`, which are printed as JSON. `renamed` are members of the JSON output that
    have another name than in the API. `sets_password` asks for a password, whose hash the call
    carries, unless the option of the field `instead_of_password` is given. `missing` explains a 404
    of the operation itself; the exit code is 1 then.
    """

    name: str = ""
    summary: str = ""
    help: str = ""
    example: str = ""
    options: Sequence[Option] = ()
    off: bool = False
    path_arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    question: str = ""
    confirms: bool = True
    done: str = ""
    unchanged: str = ""
    columns: Sequence[tuple[str, str]] = ()
    empty: str = ""
    documents: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    sets_password: bool = False
    instead_of_password: str = ""
    missing: str = ""
    note: str = ""
    remark: Callable[[Settings], str] | None = None
