"""The directory of declared objects, and everything that can be wrong with a file in it."""

from pathlib import Path

import pytest

from tests.resource.objects.books import BOOK, DIARY, TASK, write_objects
from valetkey.config.load import OperatorErrors
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings, SettingsSource
from valetkey.resource.objects import OBJECTS
from valetkey.resource.objects.declared import objects_of, read_directory
from valetkey.resource.resource_object import Verb
from valetkey.resource.scopes import scopes_of


def _settings(directory: Path, objects: str = "objects") -> Settings:
    return Settings(
        resource=ResourceSettings(objects=objects), source=SettingsSource(directory=directory)
    )


def test_only_built_in_objects_exist_without_the_setting(tmp_path: Path) -> None:
    assert objects_of(_settings(tmp_path, "")) == OBJECTS


def test_each_file_is_one_object_by_its_name(tmp_path: Path) -> None:
    write_objects(tmp_path, books_py=BOOK, tasks_json=TASK, diary_json=DIARY, README_md="# x")
    names = [
        resource_object.name for resource_object in objects_of(_settings(tmp_path))[len(OBJECTS) :]
    ]
    assert names == ["books", "diary", "tasks"]


def test_scopes_of_declared_objects_have_sentences(tmp_path: Path) -> None:
    write_objects(tmp_path, books_py=BOOK, diary_json=DIARY)
    scopes = scopes_of(_settings(tmp_path))
    assert scopes["books:write"] == "change your books"
    assert scopes["diary:read"] == "read your diary"
    assert scopes["notes:read"] == "read your notes"


def test_an_object_that_only_reads_has_no_scope_to_write(tmp_path: Path) -> None:
    only = TASK.replace('"writes": "change your tasks"', '"verbs": ["list", "read"]')
    write_objects(tmp_path, tasks_json=only)
    (tasks,) = objects_of(_settings(tmp_path))[len(OBJECTS) :]
    assert tasks.verbs == {Verb.LIST, Verb.READ}
    assert "tasks:write" not in scopes_of(_settings(tmp_path))


def _schema(properties: str = '"a": {"type": "string"}', more: str = "") -> str:
    return (
        f'{{"type": "object", "properties": {{{properties}}}{more},'
        ' "x-valetkey": {"reads": "read your things", "writes": "change your things"}}'
    )


_FEW = '["title", "f0", "f1", "f2", "f3"]'


def _lists(block: str) -> str:
    names = ("title", "limit", "f0", "f1", "f2", "f3")
    fields = ", ".join(f'"{name}": {{"type": ["string", "null"]}}' for name in names)
    declared = _schema(fields + ', "labels": {"type": "array"}')
    return declared.replace('"reads"', f'{block}, "reads"')


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a_py", "1 +", "SyntaxError in line 1"),
        ("a_py", "\nimport nothing_of_that_name", "ModuleNotFoundError in line 2"),
        ("a_py", "raise SystemExit", "SystemExit in line 1"),
        ("a_py", "OBJECT = 1", "it has no OBJECT"),
        ("a_py", BOOK, "it declares 'books'"),
        ("books_py", BOOK.replace("Book, reads", "int, reads"), "its shape is not a dataclass"),
        ("books_py", BOOK.replace("title:", "version:"), "the server sets version"),
        ("books_py", BOOK.replace(" = None", " = 0"), "a default is not valid"),
        ("books_py", BOOK.replace("read your books", "Books!"), "reads is not the sentence"),
        ("books_py", BOOK.replace("read your books", "<b>read</b>"), "reads is not the sentence"),
        ("books_py", BOOK.replace("change your books", ""), "writes is not the sentence"),
        ("books_py", BOOK.replace("slots=True)", "slots=True, bad=1)"), "TypeError in line"),
        ("notes_json", TASK, "'notes' comes with Valetkey"),
        ("read_json", TASK, "'read' comes with Valetkey"),
        ("Tasks_json", TASK, "'Tasks' is not a valid name for an object"),
        ("a_yaml", "a: b", "neither a .py nor a .json file"),
        ("a_json", "{\n  oops", "the body is not JSON (line 2, column 3)"),
        ("a_json", "[]", "it is no JSON object"),
        ("a_json", '{"type": "object"}', 'it has no "x-valetkey"'),
        ("a_json", TASK.replace('"reads"', '"read"'), "x-valetkey: "),
        ("a_json", TASK.replace('"writes"', '"colour": 1, "writes"'), "x-valetkey: "),
        ("a_json", TASK.replace("2020-12/schema", "2019-09/schema"), "$schema must be"),
        ("a_json", TASK.replace("date-time", "moment"), "/format: 'moment' is unknown"),
        ("a_json", TASK.replace("maxLength", "maxlength"), "did you mean maxLength?"),
        ("a_json", TASK.replace("#/$defs/label", "https://a/b"), "leads out of this file"),
        ("a_json", TASK.replace("#/$defs/label", "#/$defs/none"), "leads to nothing"),
        ("a_json", TASK.replace('["title"]', '["name"]'), "required names 'name'"),
        ("a_json", TASK.replace('"default": "open"', '"default": 1'), "the default at /state"),
        ("a_json", TASK.replace("(a+)+", "(?=a)"), "/pattern: "),
        ("a_json", TASK.replace('"maxLength": 8', '"maxLength": -8'), "/maxLength: "),
        ("a_json", _schema('"a": {"type": "txt"}'), "at /properties/a/type: the type is none of"),
        ("a_json", _schema('"a": {"items": 3}'), "at /properties/a/items: 3 is not of types"),
        ("a_json", _schema(more=', "additionalProperties": true'), "unknown ones are always"),
        ("a_json", _schema(more=', "$dynamicRef": "#"'), "unknown here"),
        ("a_json", _schema('"id": {"type": "string"}'), "the server sets id"),
        ("a_json", _schema(""), "it needs properties"),
        ("a_json", _schema('"a": {"$ref": "#/properties/a"}'), "leads back to itself"),
        ("a_json", _schema('"a": {"readOnly": true}'), "unknown here"),
        ("a_json", _lists('"sort": ["labels"]'), "sort names 'labels', which is not a field of"),
        ("a_json", _lists('"filter": ["changed_at"]'), "filter names 'changed_at'"),
        ("a_json", _lists('"filter": ["nothing"]'), "filter names 'nothing'"),
        ("a_json", _lists('"sort": ["title", "title"]'), "sort names a field twice"),
        ("a_json", _lists('"filter": ["limit"]'), "a query string uses 'limit'"),
        ("a_json", _lists('"sort": ["title"], "verbs": ["read", "create"]'), "no lists of it"),
        ("a_json", _lists(f'"sort": {_FEW}, "filter": {_FEW}'), "make 35 lists"),
    ],
)
def test_a_file_that_declares_nothing_is_named_with_its_reason(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    folder = write_objects(tmp_path, **{name: text}, good_json=TASK)
    objects, (problem,) = read_directory(_settings(tmp_path))
    assert [resource_object.name for resource_object in objects] == ["good"]
    assert problem.path == "resource.objects"
    assert problem.wrong.startswith(f"{folder}/{name.replace('_', '.')}: ")
    assert said in problem.wrong
    with pytest.raises(OperatorErrors, match=r"resource\.objects"):
        objects_of(_settings(tmp_path))


def test_references_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    links = ", ".join(
        f'"l{n}": {{"anyOf": [{{"$ref": "#/$defs/l{n + 1}"}}, {{"$ref": "#/$defs/l{n + 1}"}}]}}'
        for n in range(40)
    )
    more = f', "$defs": {{{links}, "l40": {{"type": "string"}}}}'
    write_objects(tmp_path, a_json=_schema('"a": {"$ref": "#/$defs/l0"}', more))
    _, (problem,) = read_directory(_settings(tmp_path))
    assert "more than 5000 schemas" in problem.wrong


def test_all_invalid_files_are_reported_at_once(tmp_path: Path) -> None:
    write_objects(tmp_path, a_json="{", b_py="(", c_txt="fine")
    assert len(read_directory(_settings(tmp_path))[1]) == 2


def test_one_name_has_one_file(tmp_path: Path) -> None:
    write_objects(tmp_path, books_py=BOOK, books_json=TASK)
    _, (problem,) = read_directory(_settings(tmp_path))
    assert "another file declares books too" in problem.wrong


def test_missing_objects_directory_is_reported(tmp_path: Path) -> None:
    _, (problem,) = read_directory(_settings(tmp_path))
    assert "no such file or directory" in problem.wrong


def test_world_writable_files_are_not_run(tmp_path: Path) -> None:
    folder = write_objects(tmp_path, books_py="raise SystemExit")
    (folder / "books.py").chmod(0o666)
    _, (problem,) = read_directory(_settings(tmp_path))
    assert "every user of this machine may write it" in problem.wrong
    folder.chmod(0o777)
    _, (problem,) = read_directory(_settings(tmp_path))
    assert problem.wrong == f"{folder}: every user of this machine may write it"


def test_number_size_and_encoding_of_files_are_limited(tmp_path: Path) -> None:
    folder = write_objects(tmp_path, a_json=" " * (1 << 20) + "{}")
    _, (problem,) = read_directory(_settings(tmp_path))
    assert "larger than 1 MiB" in problem.wrong
    (folder / "a.json").write_bytes(b"\xff")
    assert "UTF-8" in read_directory(_settings(tmp_path))[1][0].wrong
    for number in range(41):
        (folder / f"a{number}.json").write_text(TASK)
    assert "has 42 files" in read_directory(_settings(tmp_path))[1][0].wrong
