"""Mark sentences in the code for translation."""


def translatable(text: str) -> str:
    """Mark `text` for translation and return it; the catalogue is collected from these calls.

    Call it with a plain literal where a sentence is declared; translate the sentence where it is
    shown.
    """
    return text
