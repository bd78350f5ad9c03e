"""Texts: sentences that are marked for translation, and what others wrote made printable."""


def translatable(text: str) -> str:
    """Mark `text` for translation and return it; the catalogue is collected from these calls.

    Call it with a plain literal where a sentence is declared; translate the sentence where it is
    shown.
    """
    return text


def printable(text: str, instead: str = " ") -> str:
    """Return the text with `instead` for each character that Unicode does not print.

    These are control characters, line breaks and what changes the direction of text; a space stays.
    """
    return "".join(letter if letter.isprintable() else instead for letter in text)
