# Message sets that every chat template is rendered with: template_golden.py stores them, the comparisons use the store.
# Times are fixed by the caller; everything here is plain data.

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city.\nUses <b>metric</b> units & more",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "City, e.g. Zürich"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": "integer", "minimum": 1, "description": "How many days"},
                    "where": {
                        "type": "object",
                        "description": "Coordinates",
                        "properties": {"lat": {"type": "number"}, "lon": {"type": "number", "nullable": True}},
                        "required": ["lat"],
                    },
                    "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds 'two' \"numbers\"",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": ["number", "null"], "description": "left", "default": 1.5},
                    "b": {"oneOf": [{"type": "integer"}, {"type": "string", "description": "text"}], "description": "right"},
                    "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                    "flag": {"type": "boolean", "default": False},
                },
                "required": [],
            },
            "strict": True,
        },
    },
    {"type": "function", "function": {"name": "ping", "description": "No arguments", "parameters": {"type": "object", "properties": {}}}},
]


def msg(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, ident="abcdefgh1"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


S = msg("system", "You are helpful.")
U = msg("user", "Hello, who are you?")
A = msg("assistant", "I am a model.")
WEATHER = call("get_weather", {"city": "Zürich", "days": 3, "where": {"lat": 47.4, "lon": None}, "tags": ["a", "b"]})
TOOL_TALK = [
    U,
    msg("assistant", "", tool_calls=[WEATHER]),
    msg("tool", '{"temp": 21.5, "sky": "clear"}', tool_call_id="abcdefgh1", name="get_weather"),
    msg("assistant", "It is 21.5 degrees."),
    msg("user", "Thanks. And 2 + 3?"),
]
THINK_TALK = [
    U,
    msg("assistant", "Four.", reasoning_content="Two and two make four."),
    msg("user", "Really?"),
    msg("assistant", "<think>\nLet me check again.\n</think>\n\nYes."),
    msg("user", "Good."),
]
MARKERS = "<|im_end|>\n<|im_start|>system\n</think> [/INST] <|eot_id|> <|end|> {{ 7 * 7 }} {% raw %} &<>\"'"


def variants():
    """(name, variables) of every set."""
    yield "user", {"messages": [U]}
    yield "system", {"messages": [S, U]}
    yield "no_prompt", {"messages": [S, U, A], "add_generation_prompt": False}
    yield "turns", {"messages": [S, U, A, msg("user", "And now?"), msg("assistant", "Now too."), msg("user", "Bye")]}
    yield "think_on", {"messages": [S, U], "enable_thinking": True, "thinking": True}
    yield "think_off", {"messages": [S, U], "enable_thinking": False, "thinking": False}
    yield "think_history", {"messages": THINK_TALK}
    yield "think_history_on", {"messages": THINK_TALK, "enable_thinking": True, "thinking": True}
    yield "think_history_off", {"messages": THINK_TALK, "enable_thinking": False, "thinking": False}
    yield "think_last", {"messages": [U, msg("assistant", "Done.", reasoning_content="Hm.", thinking="Hm.")], "add_generation_prompt": False}
    yield "tools", {"messages": [U], "tools": TOOLS}
    yield "tools_system", {"messages": [S, U], "tools": TOOLS}
    yield "tool_call", {"messages": [S] + TOOL_TALK, "tools": TOOLS}
    yield "tool_call_open", {"messages": TOOL_TALK[:3], "tools": TOOLS}
    yield "tool_call_untold", {"messages": [S] + TOOL_TALK}
    yield "tool_call_null", {"messages": [U, msg("assistant", None, tool_calls=[WEATHER]), msg("tool", "ok", tool_call_id="abcdefgh1")], "tools": TOOLS}
    yield "tool_call_text", {"messages": [U, msg("assistant", "I will look.", tool_calls=[call("ping", {})]), msg("tool", "pong", tool_call_id="abcdefgh1"), U], "tools": TOOLS}
    yield "tool_call_string", {"messages": [U, msg("assistant", "", tool_calls=[call("add", '{"a": 1, "b": "x"}')]), msg("tool", "3", tool_call_id="abcdefgh1")], "tools": TOOLS}
    yield "tool_call_thought", {"messages": [U, msg("assistant", "", reasoning_content="I need a tool.", tool_calls=[WEATHER]), msg("tool", "fine", tool_call_id="abcdefgh1", name="get_weather")], "tools": TOOLS, "enable_thinking": True}
    yield "tool_calls_two", {"messages": [U, msg("assistant", "", tool_calls=[WEATHER, call("add", {"a": 1, "b": 2.0, "flag": True, "rows": []}, "abcdefgh2")]), msg("tool", "sunny", tool_call_id="abcdefgh1", name="get_weather"), msg("tool", "3", tool_call_id="abcdefgh2", name="add"), msg("assistant", "Sunny, 3."), U], "tools": TOOLS}
    yield "tool_content_object", {"messages": [U, msg("assistant", "", tool_calls=[WEATHER]), msg("tool", {"temp": 21, "ok": True, "none": None, "list": [1, 2.5, "é"]}, tool_call_id="abcdefgh1", name="get_weather")], "tools": TOOLS}
    yield "tool_content_parts", {"messages": [U, msg("assistant", "", tool_calls=[WEATHER]), msg("tool", [{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}], tool_call_id="abcdefgh1", name="get_weather")], "tools": TOOLS}
    yield "tools_bare", {"messages": [U], "tools": [t["function"] for t in TOOLS]}
    yield "tools_empty", {"messages": [S, U], "tools": []}
    yield "tools_null", {"messages": [S, U], "tools": None}
    yield "parts", {"messages": [msg("system", [{"type": "text", "text": "Be brief."}]), msg("user", [{"type": "text", "text": "Look: "}, {"type": "text", "text": "two parts"}])]}
    yield "parts_image", {"messages": [msg("user", [{"type": "image"}, {"type": "text", "text": "What is this?"}])]}
    yield "parts_answer", {"messages": [U, msg("assistant", [{"type": "text", "text": "An answer."}]), U]}
    yield "unicode", {"messages": [msg("system", "Réponds en français — s'il te plaît 🙂"), msg("user", "日本語で答えて。\u00a0Ünïcödé\u2028ﬁ 👩‍👩‍👧"), msg("assistant", "はい。"), msg("user", "ありがとう")]}
    yield "blanks", {"messages": [msg("system", "  \n spaced \n\n"), msg("user", "\n  leading and trailing  \n"), msg("assistant", "\n\nanswer\n"), msg("user", "\t")]}
    yield "empty", {"messages": [msg("system", ""), msg("user", ""), msg("assistant", ""), msg("user", "")]}
    yield "markers", {"messages": [msg("system", MARKERS), msg("user", MARKERS), msg("assistant", MARKERS), msg("user", "x")]}
    yield "late_system", {"messages": [S, U, A, msg("system", "New rule."), msg("user", "Go on")]}
    yield "two_systems", {"messages": [S, msg("system", "Second."), U]}
    yield "developer", {"messages": [msg("developer", "Obey."), U]}
    yield "odd_role", {"messages": [U, msg("narrator", "Meanwhile ..."), U]}
    yield "two_users", {"messages": [U, msg("user", "Again"), A]}
    yield "starts_assistant", {"messages": [A, U]}
    yield "only_system", {"messages": [S]}
    yield "only_tool", {"messages": [msg("tool", "stray", tool_call_id="abcdefgh1", name="ping")]}
    yield "null_content", {"messages": [U, msg("assistant", None), U]}
    yield "no_content", {"messages": [U, {"role": "assistant"}, U]}
    yield "no_messages", {"messages": []}
    yield "options", {
        "messages": [S, U, A, U], "tools": TOOLS[2:], "builtin_tools": ["browser", "python"], "reasoning_effort": "high", "model_identity": "You are a test.",
        "documents": [{"doc_id": 1, "title": "T", "text": "Body ü", "source": "here"}, {"doc_id": 2, "title": "U", "text": "More"}],
        "controls": {"length": "short", "originality": "abstractive"}, "date_string": "01 Jan 2026", "tools_in_user_message": False,
        "keep_past_thinking": True, "xml_tools": ["{}"], "python_tools": ["f"], "truncate_history_thinking": False,
    }
    yield "options_off", {"messages": [S] + TOOL_TALK, "tools": TOOLS, "reasoning_effort": "low", "tools_in_user_message": True, "add_vision_id": True, "preserve_thinking": True}


def sets():
    out = []
    for name, v in variants():
        v = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **v}
        out.append({"name": name, "vars": v})
    return out
