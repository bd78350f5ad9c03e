"""How a sentence in the code says that people will read it in their own language."""


def translatable(text: str) -> str:
    """The same text: it is put into the catalogue of translations from here.

    Say it where a sentence is declared, with a plain literal; translate it where it is shown.
    """
    return text
