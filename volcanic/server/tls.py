"""The TLS side of the listener: one context a process, HTTP/2 and HTTP/1.1 by ALPN."""

from __future__ import annotations

import ssl


class CertificateError(Exception):
    """The certificate or its key cannot be used; the text is one line that names both files."""


def server_context(certfile: str, keyfile: str) -> ssl.SSLContext:
    """Return the context for a PEM certificate chain and its key. Never asks for a password.

    Raises:
        CertificateError: a file cannot be read, is no PEM, is encrypted, or the two do not belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # RFC 9113 §9.2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        # Without a password of ours OpenSSL would ask the terminal for one.
        context.load_cert_chain(certfile, keyfile, password=b"")
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        text = f"cannot use the certificate {certfile} with the key {keyfile}: {reason or error}"
        raise CertificateError(text) from error
    return context
