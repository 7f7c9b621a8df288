"""Request types that providers publish and that no package of ours brings, as JSON Schemas written from them."""

from layerlore.storage.core.records import Json

_TEXT: Json = {"type": "string"}
_FULL: Json = {"type": "string", "minLength": 1}
_ANY_OBJECT: Json = {"type": "object"}


def _object(required: Json, optional: Json | None = None) -> Json:
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items, "minItems": 1}


# `Content` of the Gemini API, as google-genai 3.4 (`google.genai.types`) and the API's reference have it
# (ai.google.dev/api/caching#Content), less what we never send.
_SIGNATURE: Json = {"thoughtSignature": {"type": "string", "pattern": "^[A-Za-z0-9+/_-]+=*$"}}
_GEMINI_NAME: Json = {"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$"}
_USER_PART: Json = {
    "anyOf": [
        _object({"text": _FULL}),
        _object({"inlineData": _object({"mimeType": _FULL, "data": _FULL})}),
        _object({"fileData": _object({"mimeType": _FULL, "fileUri": _FULL})}),
    ]
}
_RESPONSE = _object({"id": _FULL, "name": _GEMINI_NAME, "response": _ANY_OBJECT})
_CALL = _object({"id": _FULL, "name": _GEMINI_NAME, "args": _ANY_OBJECT})
_MODEL_PART: Json = {"anyOf": [_object({"text": _FULL}, _SIGNATURE), _object({"functionCall": _CALL}, _SIGNATURE)]}
GEMINI_REQUEST: Json = _object(
    {
        "contents": {
            "type": "array",
            "items": {
                "anyOf": [
                    _object({"role": {"const": "user"}, "parts": _list(_USER_PART)}),
                    _object({"role": {"const": "user"}, "parts": _list(_object({"functionResponse": _RESPONSE}))}),
                    _object({"role": {"const": "model"}, "parts": _list(_MODEL_PART)}),
                ]
            },
        }
    },
    {"systemInstruction": _object({"parts": _list(_object({"text": _FULL}))})},
)

# `modelMessageSchema` of the package `ai` 7.0 (packages/ai/src/prompt/message.ts and content-part.ts), less what we never
# send. Version 7 refuses systems among the messages.
_OPTIONS: Json = {"providerOptions": {"type": "object", "additionalProperties": {"type": "object"}}}
_SDK_TEXT = _object({"type": {"const": "text"}, "text": _TEXT}, _OPTIONS)
_SDK_FILE = _object({"type": {"const": "file"}, "data": _FULL, "mediaType": _FULL}, {"filename": _FULL})
_SDK_THOUGHT = _object({"type": {"const": "reasoning"}, "text": _TEXT}, _OPTIONS)
_SDK_CALL = _object(
    {"type": {"const": "tool-call"}, "toolCallId": _FULL, "toolName": _FULL, "input": _ANY_OBJECT}, _OPTIONS
)
_SDK_OUTPUT: Json = {
    "anyOf": [
        _object({"type": {"enum": ["text", "error-text"]}, "value": _TEXT}),
        _object({"type": {"const": "json"}, "value": {}}),
    ]
}
_SDK_RESULT = _object({"type": {"const": "tool-result"}, "toolCallId": _FULL, "toolName": _FULL, "output": _SDK_OUTPUT})


def _spoken(role: str, *parts: Json) -> Json:
    return _object({"role": {"const": role}, "content": {"anyOf": [_TEXT, _list({"anyOf": [*parts]})]}})


AI_SDK_REQUEST: Json = _object(
    {
        "messages": {
            "type": "array",
            "items": {
                "anyOf": [
                    _spoken("user", _SDK_TEXT, _SDK_FILE),
                    _spoken("assistant", _SDK_TEXT, _SDK_THOUGHT, _SDK_CALL),
                    _object({"role": {"const": "tool"}, "content": _list(_SDK_RESULT)}),
                ]
            },
        }
    },
    {"system": _FULL},
)
