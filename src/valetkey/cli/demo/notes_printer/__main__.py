"""Notes Printer as a program: python -m valetkey.cli.demo.notes_printer --help."""

import argparse
import os

from valetkey.cli.demo.notes_printer.app import NotesPrinter


def main() -> None:
    """Serve until Ctrl-C; the client secret is in the environment, because `ps` shows arguments."""
    parser = argparse.ArgumentParser("notes_printer", description="Print the notes of its users.")
    parser.add_argument("--auth-url", default="http://localhost:8400")
    parser.add_argument("--api-url", default="http://localhost:8401")
    parser.add_argument("--client-id", default="printer")
    parser.add_argument("--port", default=8402, type=int)
    chosen = parser.parse_args()
    secret = os.environ.get("CLIENT_SECRET")  # noqa: TID251 - a third-party app
    if not secret:
        parser.error("put the client's secret into the environment, as CLIENT_SECRET")
    address = ("127.0.0.1", chosen.port)
    with NotesPrinter(address, chosen.auth_url, chosen.api_url, chosen.client_id, secret) as app:
        print(f"Open {app.url} and register {app.url}/callback as redirect URI. Ctrl-C stops.")
        try:
            app.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
