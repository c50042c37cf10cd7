import subprocess

import pytest

from volcanic.config import A2ASettings, LimitSettings
from volcanic.server.settings import ServerSettings
from volcanic.server.tls import CertificateError, server_context


def test_the_defaults_are_the_products():
    mine, a2a = ServerSettings(), A2ASettings()
    assert (mine.card_name, mine.card_description) == (a2a.card.name, a2a.card.description)
    assert (mine.input_modes, mine.cancel_on_disconnect) == (a2a.input_modes, a2a.cancel_on_disconnect)
    limits = LimitSettings()
    assert (mine.body_bytes, mine.body_seconds) == (limits.body_bytes, limits.body_seconds)
    assert mine.listener.connections == limits.connections


@pytest.mark.parametrize("fault", ["missing", "no PEM", "swapped", "encrypted"])
def test_a_certificate_that_cannot_be_used_is_one_line(certificate, tmp_path, fault):
    certfile, keyfile = certificate
    if fault == "missing":
        keyfile = str(tmp_path / "absent.pem")
    elif fault == "no PEM":
        certfile = str(tmp_path / "noise.pem")
        (tmp_path / "noise.pem").write_bytes(b"\x00\xff")
    elif fault == "swapped":
        certfile, keyfile = keyfile, certfile
    else:
        locked = tmp_path / "locked.pem"
        subprocess.run(
            ["openssl", "rsa", "-aes256", "-passout", "pass:secret", "-in", keyfile, "-out", locked],
            check=True,
            capture_output=True,
        )
        keyfile = str(locked)
    with pytest.raises(CertificateError) as refusal:
        server_context(certfile, keyfile)
    assert certfile in str(refusal.value)
    assert keyfile in str(refusal.value)
    assert "\n" not in str(refusal.value)
