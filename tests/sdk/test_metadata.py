"""Protected-resource metadata (RFC 9728)."""

import json

import pytest

from valetkey.sdk.protect import metadata_document, metadata_path, metadata_url

HOME = "/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("https://api.example", HOME),
        ("https://api.example/", HOME),
        ("https://api.example/v2", f"{HOME}/v2"),
        ("http://127.0.0.1:8401/a/b/", f"{HOME}/a/b/"),
        ("api", ""),
        ("urn:api", ""),
        ("https://api.example/?a", ""),
        ("https://api.example/#a", ""),
        ("https://", ""),
        ("https://api.example\n", ""),
    ],
)
def test_metadata_url_is_derived_from_the_resource_url(resource: str, path: str) -> None:
    assert metadata_path(resource) == path
    origin = "/".join(resource.split("/")[:3])
    assert metadata_url(resource) == (origin + path if path else "")


def test_metadata_names_the_resource_its_issuers_and_the_bearer_method() -> None:
    assert json.loads(metadata_document("https://api.example", ["https://as.example"])) == {
        "resource": "https://api.example",
        "authorization_servers": ["https://as.example"],
        "bearer_methods_supported": ["header"],
    }


def test_metadata_includes_scopes_name_and_documentation_if_given() -> None:
    document = json.loads(
        metadata_document(
            "https://api.example",
            ["https://as.example"],
            ["notes:read"],
            name="Notes",
            documentation="https://api.example/docs",
        )
    )
    assert document["scopes_supported"] == ["notes:read"]
    assert document["resource_name"] == "Notes"
    assert document["resource_documentation"] == "https://api.example/docs"
