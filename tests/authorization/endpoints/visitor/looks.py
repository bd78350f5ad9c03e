"""What tests look at again and again: pages that lead nowhere, and what a code stands for."""

from tests.support.harness import Harness
from tests.support.plain_browser import Answer
from valetkey.authorization.grant_types.authorization_code import CODE
from valetkey.authorization.model.grant import Voucher, VoucherKind


async def voucher_of(it: Harness, code: str) -> Voucher:
    mark = it.server.keyring.fingerprint_key.fingerprint(CODE, code)
    voucher = await it.store.read(lambda tx: tx.vouchers.find(VoucherKind.CODE, mark))
    assert voucher is not None
    return voucher


def is_page(answer: Answer, status: int) -> None:
    """An answer of our own that leads nowhere."""
    assert answer.status == status, answer.body
    assert answer.location == ""
    assert "VK-" in answer.body
    assert "set-cookie" not in dict(answer.headers)
