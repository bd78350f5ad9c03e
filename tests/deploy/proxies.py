"""Caddy, Traefik and Envoy with our configurations, unprivileged, in a folder that goes."""

from collections.abc import Mapping, Sequence

from tests.deploy.conftest import Behind
from tests.deploy.nginx import DEPLOY

_CADDY = """{{
	admin off
	auto_https off
	skip_install_trust
	storage file_system {folder}/caddy
	# No query"""
_TRAEFIK = """
  stores:
    default:
      defaultCertificate:
        certFile: {certificate}
        keyFile: {key}
"""


def caddy(program: str, there: Behind, port: int) -> Sequence[str]:
    """The command that runs deploy/caddy/Caddyfile on `port`."""
    instead = {
        "{\n\t# No query": _CADDY.format(folder=there.folder),
        "app.example.com {": f"https://app.example.com:{port} {{\n\tbind 127.0.0.1",
        "\ttls {": f"\ttls {there.certificate} {there.key} {{",
        "127.0.0.1:8401": there.api,
        "127.0.0.1:9000": there.application,
    }
    file = there.folder / "Caddyfile"
    file.write_text(_said("caddy/Caddyfile", instead))
    # Whatever it keeps, it keeps in the folder.
    home = f"HOME={there.folder}"
    return ("env", home, program, "run", "--config", str(file), "--adapter", "caddyfile")


def traefik(program: str, there: Behind, port: int) -> Sequence[str]:
    """The command that runs both halves of deploy/traefik on `port`."""
    rules = there.folder / "valetkey.yml"
    start = _said(
        "traefik/traefik.yml",
        {'":443"': f'"127.0.0.1:{port}"', "/etc/traefik/valetkey.yml": str(rules)},
    )
    # A test asks nobody whether there is a newer one.
    (there.folder / "traefik.yml").write_text(f"{start}\nglobal:\n  checkNewVersion: false\n")
    instead = {"127.0.0.1:8401": there.api, "127.0.0.1:9000": there.application}
    tls = _TRAEFIK.format(certificate=there.certificate, key=there.key)
    rules.write_text(_said("traefik/valetkey.yml", instead) + tls)
    return (program, f"--configFile={there.folder / 'traefik.yml'}")


def envoy(program: str, there: Behind, port: int) -> Sequence[str]:
    """The command that runs deploy/envoy/envoy.yaml on `port`."""
    instead = {
        "address: 0.0.0.0, port_value: 443": f"address: 127.0.0.1, port_value: {port}",
        "/etc/ssl/app.example.com.pem": str(there.certificate),
        "/etc/ssl/app.example.com.key": str(there.key),
        "http://127.0.0.1:8401": there.servers.api_url,
        "port_value: 8401": f"port_value: {there.api.rpartition(':')[2]}",
        "port_value: 9000": f"port_value: {there.application.rpartition(':')[2]}",
    }
    file = there.folder / "envoy.yaml"
    file.write_text(_said("envoy/envoy.yaml", instead))
    # One thread, and no shared memory that another Envoy of this machine could be using.
    alone = ("--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn")
    return (program, "-c", str(file), *alone, "--file-flush-interval-msec", "100")


def _said(file: str, instead: Mapping[str, str]) -> str:
    text = (DEPLOY / file).read_text()
    for named, ours in instead.items():
        assert named in text, f"{file} does not say {named}"
        text = text.replace(named, ours)
    return text
