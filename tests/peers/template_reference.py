# The reference renderer: Debian's Jinja2, set up as model makers' tools do (sandbox, trim_blocks, lstrip_blocks, loop controls,
# the generation tag, tojson without HTML escapes).
import datetime
import functools
import json
import os
import sys

NOW = 1764547200  # 2025-12-01 00:00:00 UTC

try:
    import jinja2
except ImportError:
    # Another Python may come first in PATH; Debian's module belongs to Debian's.
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", "-B", *sys.argv])
    print("python3-jinja2 is not installed")
    sys.exit(77)

import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Raised(Exception):
    """raise_exception was called."""


def raise_exception(message):
    raise Raised(message)


def strftime_now(fmt):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(fmt)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment(mutable):
    kind = jinja2.sandbox.SandboxedEnvironment if mutable else jinja2.sandbox.ImmutableSandboxedEnvironment
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads  # DeepSeek-V3.2 asks for it
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


@functools.lru_cache(maxsize=8)
def compiled(source, mutable):
    return environment(mutable).from_string(source)


def render(source, variables):
    """("text", rendered) or ("raised", message) or ("error", what). A template that changes its lists, which the makers' sandbox
    forbids and this engine allows, is rendered in a sandbox that allows it too."""
    for mutable in (False, True):
        try:
            return "text", compiled(source, mutable).render(**variables)
        except Raised as e:
            return "raised", str(e)
        except jinja2.sandbox.SecurityError as e:
            result = "error", "SecurityError: %s" % e
        except Exception as e:  # any error of any kind counts as one
            return "error", "%s: %s" % (type(e).__name__, e)
    return result
