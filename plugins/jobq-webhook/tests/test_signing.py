"""Signatures are those of the specification, by its own library; a wrong secret is refused and never shown."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from jobq.errors import InvalidInput
from jobq_webhook.signing import new_secret, secrets, signed

BODY = b'{"type":"job.dead"}'


@pytest.mark.parametrize("written", ["{new}  {old}", "{new},{old}", ["{new}", "{old}"]])
def test_every_secret_signs_and_any_one_verifies(configure, written):
    old, new = new_secret(), new_secret()
    words = [each.format(old=old, new=new) for each in ([written] if isinstance(written, str) else written)]
    secret = words[0] if isinstance(written, str) else words
    headers = signed(secrets(configure(secret=secret)), "msg_1", BODY, datetime.now(UTC))
    assert len(headers["webhook-signature"].split(" ")) == 2
    for one in (old, new):
        assert Webhook(one).verify(BODY, headers) == {"type": "job.dead"}
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new).verify(BODY + b" ", headers)


def test_a_signature_is_the_hmac_of_id_time_and_body():
    key, now = bytes(range(32)), datetime(2026, 1, 1, 0, 0, 0, 999_000, tzinfo=UTC)
    headers = signed([key], "msg_1", BODY, now)
    digest = hmac.new(key, b"msg_1.1767225600." + BODY, hashlib.sha256).digest()
    assert headers == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1767225600",
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def test_new_secrets_are_good_and_differ(configure):
    assert new_secret() != new_secret()
    assert [len(key) for key in secrets(configure(secret=new_secret()))] == [32]


@pytest.mark.parametrize("unset", ["", "none", "   "])
def test_without_a_secret_nothing_is_signed(configure, unset):
    with pytest.raises(InvalidInput, match="nothing is sent unsigned; `jobq webhook secret`"):
        secrets(configure(secret=unset))


@pytest.mark.parametrize(
    "wrong",
    [
        "CANARY",
        base64.b64encode(b"CANARY" * 6).decode(),
        "whsec_" + base64.b64encode(b"CANARY").decode(),
        "whsec_" + base64.b64encode(b"CANARY" * 11).decode(),
        "whsk_" + base64.b64encode(b"CANARY" * 6).decode(),
        "whsec_CANARY!",
        "whsec_CANARY-CANARY_CANARY-CANARY_CANARY-CANARY_",
        "whsec_cänary",
    ],
)
def test_what_is_no_secret_is_refused_beside_a_good_one_too_and_never_shown(configure, secret, wrong):
    for value in (wrong, f"{secret} {wrong}"):
        with pytest.raises(InvalidInput, match=r"24 to 64 bytes") as refused:
            secrets(configure(secret=value))
        assert wrong not in str(refused.value)
        assert secret not in str(refused.value)
