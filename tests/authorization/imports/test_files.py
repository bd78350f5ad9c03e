"""Files of users: what is read, what is wrong with a row, and what is wrong with a file."""

import json

import pytest
from msgspec import UNSET

from valetkey.authorization.imports.model import ImportKind, ImportRow, RowState
from valetkey.authorization.imports.rules.files import (
    LONGEST_ROW,
    FileFault,
    FileFormat,
    ImportedUser,
    decode,
    explain,
    format_of,
    read_file,
    reasons_of,
    stored_reasons,
)
from valetkey.authorization.imports.rules.users import imported_attributes
from valetkey.authorization.model.user import Attribute, UserAttributes
from valetkey.authorization.protocol.register.fault_texts import SENTENCES
from valetkey.authorization.protocol.register.faults import REASONS, Reason, reason

_HEADING = "username,email"


def _rows(content: str | bytes, form: FileFormat = FileFormat.CSV) -> list[ImportRow]:
    raw = content.encode() if isinstance(content, str) else content
    return list(read_file(form, raw, 10))


def _user(row: ImportRow, kind: ImportKind = ImportKind.CSV) -> ImportedUser:
    decoded = decode(kind, row.data)
    assert not isinstance(decoded, Reason), decoded
    user, left = decoded
    assert left == ()
    return user


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_is_read_with_any_delimiter_line_end_and_byte_order_mark(mark: str, end: str) -> None:
    lines = (
        "username,email,name,email_verified,uid,address.locality,phone_number",
        'ada,ada@example.com,"Ada\u2007L",false,17,London,+442079460000',
        ",,,,,,",
        "bob, bob@example.com ",
    )
    content = end.join(lines).replace(",", mark).encode("utf-8-sig")
    ada, bob = _rows(content)
    assert (ada.line, bob.line) == (2, 4)
    user = _user(ada)
    assert (user.username, user.uid, user.email_verified) == ("ada", 17, False)
    assert user.address != _user(bob).address
    assert _user(bob).email == "bob@example.com"


def test_headings_are_read_in_any_case_and_without_empty_cells_at_the_end() -> None:
    (ada,) = _rows(
        " Username ;EMAIL;Address.Locality;Attribute.Floor; ;\nada;a@b.example;London;4;; ;\n ; ;;"
    )
    user = _user(ada)
    assert (user.username, user.email, user.attributes) == ("ada", "a@b.example", {"Floor": "4"})
    assert ada.username == "ada"


def test_row_with_more_or_fewer_cells_than_the_heading_is_a_fault_of_the_row_alone() -> None:
    more, fewer, good = _rows(f"{_HEADING}\nada,ada@b.example,more\nbob\ncarl,carl@b.example\n")
    assert (more.state, more.username, more.data) == (RowState.FAULTY, "ada", "")
    assert explain(more.reason) == "the row has more cells than the heading"
    assert decode(ImportKind.CSV, fewer.data) == reason("email", "missing")
    assert _user(good).username == "carl"


@pytest.mark.parametrize("column", ["email_verified", "phone_number_verified"])
@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("TRUE", "FALSE"),
        ("1", "0"),
        ("Yes", "No"),
        ("WAHR", "FALSCH"),
        ("VRAI", "FAUX"),
        ("VERDADERO", "FALSO"),
    ],
)
def test_cell_is_a_boolean_as_spreadsheets_write_it(column: str, yes: str, no: str) -> None:
    rows = _rows(f"{_HEADING},phone_number,{column}\na,a@b,+442079460000,{yes}\nb,b@b,,{no}")
    assert [getattr(_user(row), column) for row in rows] == [True, False]


def test_cell_of_a_boolean_attribute_is_read_alike() -> None:
    declared = [Attribute("badge", schema={"type": "boolean"})]
    read = imported_attributes(declared, {"badge": "Falsch"}, ImportKind.CSV)
    assert isinstance(read, UserAttributes)
    assert read.values == {"badge": False}


def test_json_is_read_with_nested_address_and_own_types() -> None:
    users = [{"username": "ada", "email": "ada@example.com", "address": {"locality": "London"}}]
    (row,) = _rows(json.dumps(users), FileFormat.JSON)
    assert (row.username, row.email, row.line) == ("ada", "ada@example.com", 1)
    assert _user(row, ImportKind.JSON).username == "ada"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", 'no "username"'),
        (_HEADING, "no users"),
        ("email\nada@example.com", 'no "username"'),
        (f"{_HEADING},email\nada,a@b,c@d", 'two columns "email"'),
        (f"{_HEADING},shoe_size,,Hat\n", 'unknown columns: "shoe_size", "", "Hat"; known are'),
        (f"{_HEADING},Email\nada,a@b,c@d", 'two columns "email"'),
        (f"{_HEADING}, Password\nada,a@b,secret", 'the column "password"'),
        (f"{_HEADING},password\nada,a@b,secret", 'the column "password"'),
        (f'{_HEADING}\nada,"a@b\n\n\n', "row 2 is not CSV: a quotation mark is not closed"),
        (f'{_HEADING}\nada,a@b\n"b"x,b@b', "row 3 is not CSV: text follows a closing quotation"),
        (f"{_HEADING}\nada,{'x' * 200_000}", "row 2 is not CSV: a cell is too long"),
        (f"{_HEADING}\nada,a@b\n" + "\n".join(f"u{n},u{n}@b" for n in range(10)), "split"),
        (b"username,email\nad\xe4,a@b", "not UTF-8"),
        ("username,email\n".encode("utf-16"), "not UTF-8"),
    ],
)
def test_wrong_csv_file_is_refused(content: str | bytes, said: str) -> None:
    with pytest.raises(FileFault, match=said) as raised:
        _rows(content)
    assert raised.value.reason.code in REASONS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON: it ends too early"),
        ("[", "not JSON: it ends too early"),
        ("[1,\n2,]", "not JSON: error in line 2"),
        ("username,email", "not JSON: error in line 1"),
        ("{}", "not a JSON array of objects"),
        ("null", "not a JSON array of objects"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_wrong_json_file_is_refused(content: str, said: str) -> None:
    with pytest.raises(FileFault, match=said) as raised:
        _rows(content, FileFormat.JSON)
    assert raised.value.reason.code in REASONS


def test_duplicates_and_huge_rows_are_faults_of_their_rows() -> None:
    first, second, third, fourth = _rows(
        f"{_HEADING},name\nada,ada@example.com,\nADA,b@example.com,\nbob,Ada@example.com,\n"
        f"carl,carl@example.com,{'x' * LONGEST_ROW}"
    )
    assert first.state is RowState.WAITING
    faults = [(row.state, explain(row.reason)) for row in (second, third)]
    assert faults == [
        (RowState.FAULTY, "username: the same as in row 2"),
        (RowState.FAULTY, "email: the same as in row 2"),
    ]
    assert (fourth.state, fourth.data) == (RowState.FAULTY, "")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("17", "must be an object"),
        ('{"username": "a", "email": "a@b", "uid": "1"}', "uid: must be a whole number"),
        ('{"username": "a", "email": "a@b", "uid": 0}', "uid: must be at least 1"),
        ('{"username": "", "email": "a@b"}', "username: must not be empty"),
        ('{"username": "a", "email": "a@b", "name": "\\ud83d"}', "not JSON"),
        ("{", "not JSON"),
        ("[" * 50_000, "not JSON"),
        ('{"username": "ada"}', "email: is missing"),
        ('{"username": "ada", "email": "a@b", "password": "x"}', "unknown"),
        ('{"username": "ada", "email": "nowhere"}', "email: must be an email address"),
        ('{"username": "a\\ud800", "email": "a@b"}', "not JSON"),
        ('{"username": "a\\u0000", "email": "a@b"}', "username: must not have control characters"),
        (
            '{"username": "ada", "email": "a@b", "address": {"city": "x"}}',
            "address: has an unknown member",
        ),
    ],
)
def test_fault_of_a_row_names_its_field(data: str, said: str) -> None:
    fault = decode(ImportKind.JSON, data)
    assert isinstance(fault, Reason)
    assert said in explain(stored_reasons([fault]))


@pytest.mark.parametrize(
    ("column", "cell", "code"),
    [
        ("uid", "four", "type.integer"),
        ("uid", "0", "number.least"),
        ("uid", "9" * 5_000, "type.integer"),
        ("uid", "9007199254740992", "number.most"),
        ("email_verified", "perhaps", "type.boolean"),
        ("name", "x" * 201, "length.most"),
        ("name", "a\x00", "text.controls"),
    ],
)
def test_fault_of_a_cell_has_a_code(column: str, cell: str, code: str) -> None:
    (row,) = _rows(f"{_HEADING},{column}\nada,ada@example.com,{cell}")
    fault = decode(ImportKind.CSV, row.data)
    assert isinstance(fault, Reason)
    assert (fault.field, fault.code) == (column.replace(".", "/"), code)


def test_user_is_read_without_claims_that_have_the_wrong_form() -> None:
    (row,) = _rows(f"{_HEADING},nickname,address.locality,gender\nada,a@b.c,{'x' * 201},a\x00,f")
    decoded = decode(ImportKind.CSV, row.data)
    assert not isinstance(decoded, Reason)
    user, left = decoded
    assert (user.username, user.nickname, user.address, user.gender) == ("ada", UNSET, UNSET, "f")
    assert {(reason.field, reason.code) for reason in left} == {
        ("nickname", "length.most"),
        ("address/locality", "text.controls"),
    }


def test_reasons_are_stored_as_codes_up_to_two_hundred_characters() -> None:
    some = reason("name", "text.printable", most=200)
    stored = stored_reasons([some] * 9)
    assert reasons_of(stored) == (some,) * 4
    assert explain(stored) == "; ".join(["name: must be at most 200 printable characters"] * 4)
    german = {some.text: "höchstens %(most)s Zeichen"}
    assert (
        explain(stored_reasons([some]), lambda text: german[text]) == "name: höchstens 200 Zeichen"
    )
    assert (reasons_of(""), stored_reasons([])) == ((), "")


def test_codes_of_templates_and_of_sentences_differ() -> None:
    assert not REASONS.keys() & SENTENCES.keys()


def test_reasons_of_other_versions_are_shown() -> None:
    before = "email: must be an email address; attributes/a: is not declared; the row is not JSON"
    assert explain(before) == before
    assert [fault.field for fault in reasons_of(before)] == ["email", "attributes/a", ""]
    assert explain(stored_reasons([Reason("name", "of a newer version")])).endswith("version")


@pytest.mark.parametrize("value", [None, 17, ["ada"], {"a": 1}, "a\u0000b\ud83d\ude00"])
def test_invalid_names_are_shown_without_control_characters(value: object) -> None:
    (row,) = _rows(json.dumps([{"username": value, "email": "a@b"}]), FileFormat.JSON)
    assert row.username == ("a b\U0001f600" if isinstance(value, str) else "")


def test_ndjson_has_a_user_on_each_line_and_other_separators_inside_of_texts() -> None:
    rows = _rows(
        '{"username":"ada","email":"ada@example.com","name":"A\u2028L"}\r\n\n{"username":"bob"\n'
        '["x\x00"]\n\x00\n{"username":"ADA","email":"a@b"}',
        FileFormat.NDJSON,
    )
    assert [row.line for row in rows] == [1, 3, 4, 5, 6]
    assert _user(rows[0], ImportKind.JSON).name == "A\u2028L"
    for row in rows[1:4]:
        # No text that a database refuses.
        assert "\x00" not in row.data
        assert decode(ImportKind.JSON, row.data) == reason("", "row.json")
    assert explain(rows[4].reason) == "username: the same as in row 1"


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("Users.CSV", b"[", FileFormat.CSV),
        ("users.json", b"", FileFormat.JSON),
        ("users", b" [1]", FileFormat.JSON),
        ("users.txt", b"username", FileFormat.CSV),
        ("users.json", b'\xef\xbb\xbf{"username": 1}\n{}', FileFormat.NDJSON),
        ("users.ndjson", b"{}", FileFormat.NDJSON),
        ("users.json", b'{\n "users": []\n}', FileFormat.JSON),
    ],
)
def test_format_is_known_by_name_or_else_by_content(
    name: str, content: bytes, form: FileFormat
) -> None:
    assert format_of(name, content) is form
