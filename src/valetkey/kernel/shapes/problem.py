"""JSON Schema of the problems that every API responds with (RFC 9457)."""

from valetkey.kernel.refusal import ErrorCode
from valetkey.kernel.shapes.shape import Document


def problem_schema(pointer: str) -> Document:
    """Return the schema; `pointer` is an example of a field with an error."""
    return {
        "type": "object",
        "description": "Why the request was refused (RFC 9457).",
        "properties": {
            "type": {"type": "string", "description": "A page that explains the code."},
            "title": {"type": "string", "examples": ["Invalid Token Error"]},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"enum": sorted(code.value for code in ErrorCode)},
            "reference": {
                "type": "string",
                "description": "The argument of `valetkey explain`.",
                "examples": ["VK-7F3K-9QXM-2RTD"],
            },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "pointer": {"type": "string", "examples": [pointer]},
                        "detail": {"type": "string", "examples": ["this field is required"]},
                    },
                    "required": ["pointer", "detail"],
                },
            },
        },
        "required": ["type", "title", "status", "detail", "code", "reference"],
    }
