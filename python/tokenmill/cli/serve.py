"""`tokenmill serve`: the playground and the runs in a browser."""

from __future__ import annotations

import socket

import click

from tokenmill.cli.options import command
from tokenmill.errors import ConfigError, explain_missing


@command("tokenmill serve", "tokenmill serve runs tokenizers --port 8800")
@click.argument("directories", nargs=-1)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0: a free one.")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
def serve(directories: tuple[str, ...], *, host: str, port: int, open_browser: bool) -> None:
    """Serve a local page for DIRECTORIES (default: this one): a playground, and runs with their data."""
    from tokenmill.web.app import LOOPBACK, create_app

    with explain_missing("uvicorn", "web", "tokenmill serve"):
        import uvicorn

    app = create_app(directories or (".",), hosts=LOOPBACK if host in LOOPBACK else None)
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}/"
    click.echo(f"Tokenmill is at {url} (Ctrl-C stops it)")
    if host not in LOOPBACK:
        click.echo(f"warning: {host} can be reached from other machines; the page has no password", err=True)
    if open_browser:
        click.launch(url)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    server.run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Bind before the address is printed, so that a port in use is reported in one line."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --port, or 0 for a free one"
        ) from error
