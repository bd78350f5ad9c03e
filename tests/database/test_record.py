"""Records: columns by the fields of a class, in statements, rows and parameters."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from valetkey.database.connect import connect
from valetkey.database.engine import Connection, Engine
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Note:
    id: str
    colour: Colour | None
    scope: Scope
    words: tuple[str, ...]
    tags: frozenset[str]
    is_open: bool
    read_at: Instant | None
    length: int = 0


@dataclass(frozen=True)
class Author:
    name: str
    born: int


NOTES = Record(Note, "notes", id=Column("note_id"), length=Column(sql="length(notes.words)"))


def written(note: Note, author: Author | None) -> tuple[Note, Author | None]:
    """A note and its author, as a statement that joins the two finds them."""
    return note, author


WRITTEN = Record(written, note=NOTES, author=Record(Author, "authors"))

NOTE = Note("n1", Colour.RED, Scope.of("a", "b"), ("x", "y"), frozenset({"t", "s"}), True, None, 3)
BARE = Note("n2", None, Scope(), (), frozenset(), False, Instant(7), 0)


def test_star_is_expanded_to_the_columns() -> None:
    columns = (
        "notes.note_id, notes.colour, notes.scope, notes.words, notes.tags, notes.is_open,"
        " notes.read_at, length(notes.words)"
    )
    read = NOTES.statement("SELECT * FROM notes WHERE EXISTS (SELECT COUNT(*) FROM authors)")
    assert read == f"SELECT {columns} FROM notes WHERE EXISTS (SELECT COUNT(*) FROM authors)"
    deleted = NOTES.statement("DELETE FROM notes RETURNING *")
    assert deleted == f"DELETE FROM notes RETURNING {columns}"
    assert NOTES.statement("INSERT INTO notes (*, author) VALUES (*, :author)") == (
        "INSERT INTO notes (note_id, colour, scope, words, tags, is_open, read_at, author)"
        " VALUES (:note_id, :colour, :scope, :words, :tags, :is_open, :read_at, :author)"
    )


def test_rows_come_back_as_they_were_stored(database_url: str, tmp_path: Path) -> None:
    def create(db: Connection) -> None:
        db.run("CREATE TABLE authors (name TEXT, born BIGINT)")
        db.run(
            "CREATE TABLE notes (author TEXT, read_at BIGINT, is_open BIGINT, tags TEXT,"
            " words TEXT, scope TEXT, colour TEXT, note_id TEXT)"
        )

    def work(db: Connection) -> None:
        db.run("INSERT INTO authors (name, born) VALUES ('ada', 1815), ('unborn', NULL)")
        insert = "INSERT INTO notes (*, author) VALUES (*, :author)"
        assert NOTES.run(db, insert, NOTE, author="ada") == 1
        NOTES.send(db, insert, BARE, author="unborn")
        assert NOTES.find(db, "SELECT * FROM notes WHERE note_id = 'n1'") == NOTE
        assert NOTES.find(db, "SELECT * FROM notes WHERE note_id = 'n3'") is None
        pairs = WRITTEN.all(
            db, "SELECT * FROM notes LEFT JOIN authors ON name = author ORDER BY note_id"
        )
        assert [note for note, _ in pairs] == [NOTE, BARE]
        # A record that lacks what it cannot do without is none.
        assert [author for _, author in pairs] == [Author("ada", 1815), None]

    async def story(engine: Engine) -> None:
        await engine.change_schema(create)
        await engine.write(work)
        await engine.close()

    asyncio.run(story(connect(database_url, directory=tmp_path)))
