"""Every claim that can be asked for by itself has its words."""

from valetkey.authorization.protocol.claims import PERSONAL_CLAIMS
from valetkey.authorization.site.consent import CLAIM_WORDS


def test_each_claim_has_a_label_that_fits_into_a_sentence() -> None:
    assert CLAIM_WORDS.keys() == PERSONAL_CLAIMS
    assert len(set(CLAIM_WORDS.values())) == len(CLAIM_WORDS)
    for words in CLAIM_WORDS.values():
        assert words[0].islower()
        assert not words.endswith(".")
