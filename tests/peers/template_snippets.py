# Small templates, one or a few features each; template_golden.py stores what the reference makes of them.
VARS = {
    "n": 5, "f": 2.5, "neg": -7, "big": 123456789012, "yes": True, "no": False, "nil": None, "s": "Hello World", "u": "ÄÖü ßﬁ Σας",
    "html": "<b a='1'>\"x\" & y</b>", "blank": "", "ws": "  \t x \n ", "text": "one two  three\nfour\n\nfive", "long": "The quick brown fox jumps over the lazy dog",
    "xs": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "empty": [], "mixed": [1, 2.0, "three", None, True, [4], {"k": "v"}],
    "d": {"b": 2, "a": 1, "C": 3}, "nested": {"x": {"y": [10, {"z": "deep"}]}, "items": "shadow"},
    "users": [{"name": "Ann", "age": 30, "on": True}, {"name": "bob", "age": 25, "on": False}, {"name": "Cid", "age": 30, "tag": {"k": 1}}],
    "digits": "12345", "float_text": " 42.23 ", "odd": "it's \"quoted\" \\ \n\t\x01\u00a0\u200b🙂", "json": '{"a": [1, 2.5, "é"], "b": null}',
}

SNIPPETS = r"""
{{ n + 1 }} {{ n - 7 }} {{ n * 3 }} {{ n / 2 }} {{ n // 2 }} {{ n % 3 }} {{ n ** 3 }} {{ -n }} {{ +n }}
{{ neg // 2 }} {{ neg % 3 }} {{ 7 // -2 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }}
{{ 1 / 3 }} {{ 1e16 }} {{ 1e15 }} {{ 1.5e-5 }} {{ 0.0001 }} {{ 100.0 }} {{ 1e100 }} {{ 123456789.123 }} {{ 0.1 + 0.2 }} {{ -0.0 }}
{{ 10 / 2 }} {{ 4.0 * 2 }} {{ yes + yes }} {{ yes * 3 }} {{ 3 - no }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_0.5_0 }} {{ 2e3 }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 2 * 'xy' }} {{ 'x' * 0 }} {{ 'x' * -1 }} {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2, 3) }} {{ (1, 2) * 2 }}
{{ 'a' ~ 1 ~ 2.0 ~ none ~ true ~ [1, 'x'] ~ undefined_thing }}
{{ 1 ~ 2 + 3 ~ 4 }}
{{ 2 + 3 * 4 ** 2 // 3 - -1 }} {{ (2 + 3) * 4 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ not 1 == 2 }} {{ 1 - 2 - 3 }} {{ 100 / 10 / 5 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'a' == 1 }} {{ none == false }} {{ (1, 2) == (1, 2) }} {{ [1] == (1,) }}
{{ 1 in xs }} {{ 9 in xs }} {{ 9 not in xs }} {{ 'ell' in s }} {{ 'a' in d }} {{ 'z' not in d }} {{ 1.0 in xs }} {{ [4] in mixed }} {{ '' in '' }} {{ 1 in (1, 2) }}
{{ not yes }} {{ yes and no }} {{ no or 'x' }} {{ 1 and 2 }} {{ 0 or [] }} {{ '' or none or 0 }} {{ not not 5 }} {{ yes and not no or no }}
{{ 'y' if yes else 'n' }} {{ 'y' if no else 'n' }} {{ 'y' if no }}| {{ 'a' if no else 'b' if no else 'c' }} {{ ('a' if yes else 'b') ~ 'c' }}
{{ xs[0] }} {{ xs[-1] }} {{ xs[9] }}| {{ s[0] }} {{ s[-1] }} {{ d['a'] }} {{ d.a }} {{ d['zz'] }}| {{ d.zz }}| {{ nested.x.y[1].z }} {{ nested['x']['y'][0] }} {{ xs.0 }}
{{ s[1:4] }} {{ s[:3] }} {{ s[-3:] }} {{ s[::-1] }} {{ s[::2] }} {{ s[5:2] }}| {{ s[2:100] }} {{ s[-100:2] }} {{ s[8:2:-2] }} {{ s[:-1] }}
{{ xs[1:] }} {{ xs[::-1] }} {{ xs[:-1] }} {{ xs[5:] }} {{ xs[-2:] }} {{ (1, 2, 3, 4)[1:3] }} {{ mixed[::3] }} {{ range(10)[2:5] }} {{ xs[:none] }}
{{ u }} {{ u[0] }} {{ u[-1] }} {{ u[1:5] }} {{ u[::-1] }} {{ u|length }}
{{ true }} {{ True }} {{ false }} {{ none }} {{ None }} {{ nil }} {{ yes }} {{ nope }}| {{ xs }} {{ d }} {{ mixed }} {{ (1,) }} {{ () }} {{ {} }} {{ [] }} {{ {'a': 1, 2: 'b'} }}
{{ [odd] }}
{{ odd }}
{{ ["it's", 'say "x"', 'both \' "'] }}
{{ [1.0, 1e20, -0.5, true, none] }} {{ [[1, [2]], {'a': (1, 2)}] }} {{ [nope] }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.items()|list }} {{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 7) }} {{ nested['items'] }} {{ nested.items is callable }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }},{% endfor %} {% for k, v in d|items %}{{ k }}{{ v }}{% endfor %} {% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}
{{ d|dictsort(true) }} {{ d|dictsort(by='value') }} {{ d|dictsort(false, 'value', true) }} {{ d|dictsort(reverse=true) }}
{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}|{% endfor %}
{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %}
{% for x in [1, 2, 3, 4, 5, 6] if x is even %}{{ x }}/{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% else %}none{% endfor %}
{% for x in [] %}x{% else %}empty{% endfor %} {% for x in xs if x > 9 %}x{% else %}none{% endfor %} {% for x in nope %}x{% else %}undefined{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}-{{ b }} {% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in xs %}{% for y in xs %}{{ x * y }}{% if y == 1 %}{% break %}{% endif %}{% endfor %};{{ loop.index }}{% endfor %}
{% for c in 'añb' %}[{{ c }}]{% endfor %} {% for x in (1, 2) %}{{ x }}{% endfor %} {% for x in range(3) %}{{ x }}{% endfor %} {% for x in range(5, 1, -2) %}{{ x }}{% endfor %} {{ range(3) }} {{ range(1, 9, 3) }} {{ range(4)|list }} {{ range(0)|list }}
{% for x in xs %}{% set y = x %}{% endfor %}{{ y }}| {% set z = 1 %}{% for x in xs %}{{ z }}{% set z = x %}{{ z }}{% endfor %}{{ z }}
{% if yes %}{% set w = 3 %}{% endif %}{{ w }} {% if no %}{% set q = 3 %}{% endif %}{{ q }}| {% if no %}a{% elif n == 5 %}b{% else %}c{% endif %}
{% if xs and d and s %}full{% endif %}{% if empty or blank or nil or 0 or 0.0 or {} or () %}x{% else %}falsy{% endif %}{% if nope %}x{% endif %}
{% set ns = namespace(a=1, b='x') %}{% for x in xs %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}| {% set ns.c = 5 %}{{ ns.c }} {{ namespace({'k': 1}).k }} {{ ns }}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t = 1, 2 %}{{ t }} {% set t = (1,) %}{{ t }} {% set x = y = 1 %}
{% set x %}block {{ n }}{% endset %}{{ x }}|{{ x|length }} {% set y | upper | replace('A', 'b') %}abc{% endset %}{{ y }}
{% macro m(a, b=2, c='x') %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='z') }}{{ m() }}{{ m(b=5, a=4) }}{{ m(*[7, 8]) }}{{ m(**{'a': 9}) }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, x=3) }} {% macro dflt(a, b=a) %}{{ b }}{% endmacro %}{{ dflt(4) }}
{% macro w(a) %}<{{ caller(a) }}>{% endmacro %}{% call(x) w(3) %}body {{ x }} {{ n }}{% endcall %} {% macro w2() %}({{ caller() }}){% endmacro %}{% call w2() %}in{% endcall %}
{% macro outer() %}{{ late }}{% endmacro %}{% set late = 'seen' %}{{ outer() }} {% for x in [1] %}{% set inner = 2 %}{% macro mm() %}{{ x }}{{ inner }}{% endmacro %}{{ mm() }}{% endfor %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}| {% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b')|upper %}aaa{% endfilter %}
{% raw %}{{ not }} {% parsed %}{% endraw %} {%- raw -%}  x  {%- endraw %} y {# comment {{ x }} #}z{#- trim -#} w
a {{- ' b ' -}} c {%- if yes -%} d {%- endif -%} e {{ 'f' }} {%+ if yes %} g {% endif +%} h
{% generation %}generated {{ n }}{% endgeneration %}!
{{ 'a\nb\tc\\d\'e\"f\x41\u00e9\U0001F642\101\q' }} {{ "it's" }} {{ 'say "x"' }} {{ 'con' 'cat' "ed" }}
{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ 'fOO bAR-baz (qux) [x]y {z}w <a>b o\'neil'|title }} {{ u|upper }} {{ u|lower }} {{ u|title }} {{ u|capitalize }} {{ 42|upper }} {{ none|lower }}
{{ 'fOO bAR-baz o\'neil 3d'.title() }} {{ u.title() }} {{ u.upper() }} {{ u.lower() }} {{ u.capitalize() }} {{ 'aBc'.swapcase() }} {{ 'ΑΣ ΑΣΑ Σ'.lower() }}
[{{ ws|trim }}] [{{ ws.strip() }}] [{{ ws.lstrip() }}] [{{ ws.rstrip() }}] {{ 'xxabcxx'.strip('x') }} {{ 'abcba'.lstrip('ab') }} {{ 'abcba'.rstrip('ab') }} {{ 'xyabyx'|trim('xy') }} {{ '\u00a0\u2003x\u3000'.strip() }}|
{{ 'a,b,,c'.split(',') }} {{ text.split() }} {{ 'a b c d'.split(' ', 2) }} {{ ' a b '.split(none, 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'a  b c '.rsplit(none, 1) }} {{ 'abc'.split('x') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b--c'.rsplit('--') }} {{ 'a b c'.split(maxsplit=1) }}
{{ text.splitlines() }} {{ 'a\r\nb\rc\x0bd\x0ce\u2028f'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ ''.splitlines() }}
{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith(('x', 'y')) }} {{ s.startswith('lo', 3) }} {{ s.startswith('') }} {{ s.endswith('lo', 0, 5) }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s.replace('', '-') }} {{ s|replace('o', '0') }} {{ s|replace('l', '', 2) }} {{ 'aaa'.replace('aa', 'b') }} {{ 123|replace(2, 'x') }} {{ 'ab'.replace('', '-', 2) }}
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ s.count('l') }} {{ s.find('o', 5) }} {{ u.find('ß') }} {{ s.count('') }} {{ s.find('') }} {{ s.rfind('') }} {{ s.rindex('l') }} {{ s.find('o', -3, -1) }}
{{ s.index('zz') }}
{{ ', '.join(['a', 'b']) }} {{ ''.join([]) }} {{ '-'.join('abc') }} {{ 'x'.join(d) }} {{ xs|join }} {{ xs|join(', ') }} {{ users|join('/', attribute='name') }} {{ mixed|join('|') }} {{ 'abc'|join(',') }}
{{ ', '.join([1]) }}
{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'ab'.isalpha() }}{{ ' \n'.isspace() }}{{ 'AB'.isupper() }}{{ 'ab'.islower() }}{{ 'Ab Cd'.istitle() }}{{ ''.isdigit() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ '½'.isnumeric() }}{{ 'é'.isalpha() }}{{ 'A1'.isupper() }}{{ '1'.isupper() }}
{{ s.removeprefix('Hello ') }} {{ s.removesuffix('World') }}| {{ s.removeprefix('x') }} {{ 'a'.ljust(4) }}| {{ 'a'.rjust(4, '.') }} {{ 'ab'.center(7, '*') }} {{ '-42'.zfill(6) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ 'abc'.rpartition('=') }}
{{ s|length }} {{ xs|count }} {{ d|length }} {{ nope|length }} {{ range(4)|length }} {{ 'é🙂'|length }} {{ d.items()|length }}
{{ nope|default('x') }} {{ blank|default('x') }}| {{ blank|default('x', true) }} {{ nil|default('x') }} {{ nil|d('x', boolean=true) }} {{ d.zz|default }}| {{ 0|default(1, true) }} {{ nope|default }}|
{{ xs|first }} {{ xs|last }} {{ 'abc'|first }} {{ 'abc'|last }} {{ []|first }}| {{ d|first }} {{ xs|min }} {{ xs|max }} {{ words|min }} {{ words|max }} {{ []|max }}| {{ words|min(case_sensitive=true) }} {{ users|max(attribute='age') }}
{{ xs|sum }} {{ users|sum(attribute='age') }} {{ users|sum('age', 10) }} {{ [0.5, 1]|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ []|sum }}
{{ xs|sort }} {{ xs|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ users|sort(attribute='age')|map(attribute='name')|list }} {{ users|sort(attribute='age,name')|map(attribute='name')|join(',') }} {{ users|sort(true, attribute='name')|map(attribute='name')|list }} {{ d|sort }}
{{ xs|reverse|list }} {{ 'abc'|reverse }} {{ words|unique|list }} {{ words|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ users|unique(attribute='age')|map(attribute='name')|list }}
{{ xs|list }} {{ 'abc'|list }} {{ d|list }} {{ (1, 2)|list }} {{ nope|list }} {{ range(2)|list }}
{{ users|map(attribute='name')|list }} {{ users|map(attribute='tag.k', default='-')|list }} {{ words|map('upper')|list }} {{ xs|map('string')|join('+') }} {{ ['a b', 'c']|map('replace', ' ', '_')|list }} {{ users|map(attribute='zz')|list }} {{ [[1, 2], [3, 4]]|map('first')|list }} {{ [[1, 2]]|map(attribute=1)|list }}
{{ xs|select('odd')|list }} {{ xs|reject('odd')|list }} {{ mixed|select|list }} {{ mixed|reject|list }} {{ xs|select('gt', 1)|list }} {{ mixed|select('string')|list }} {{ xs|select('>', 2)|list }} {{ words|reject('equalto', 'fig')|list }} {{ xs|select('in', [1, 2])|list }}
{{ users|selectattr('on')|map(attribute='name')|list }} {{ users|rejectattr('on')|map(attribute='name')|list }} {{ users|selectattr('age', 'equalto', 30)|map(attribute='name')|list }} {{ users|selectattr('tag.k', 'defined')|list|length }} {{ users|rejectattr('age', '<', 30)|map(attribute='name')|list }}
{{ users|selectattr('tag', 'defined')|map(attribute='name')|list }} {{ users|selectattr('name', 'in', ['bob'])|list }}
{% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|map(attribute='name')|join(',') }};{% endfor %}{% for k, v in users|groupby('age') %}{{ k }}{{ v|length }}{% endfor %} {{ users|groupby('on', default=false)|length }} {{ words|groupby(0)|map('first')|list }}
{{ xs|batch(2)|list }} {{ xs|batch(2, 'z')|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }} {{ []|batch(3)|list }}
{{ text|indent }}|{{ text|indent(2, true) }}|{{ text|indent(2, false, true) }}|{{ text|indent('> ', first=true) }}|{{ 'a\n'|indent }}|{{ ''|indent(first=true) }}|
{{ long|truncate(20) }} {{ long|truncate(20, true) }} {{ long|truncate(20, false, '~') }} {{ long|truncate(41) }} {{ long|truncate(20, leeway=0, end='') }} {{ 'abc'|truncate(3) }}
{{ long|wordcount }} {{ text|wordcount }} {{ ''|wordcount }} {{ 'x'|center(5) }}| {{ s|center(20) }}| {{ u|wordcount }}
{{ html|escape }} {{ html|e|e }} {{ html|e|forceescape }} {{ html|safe }} {{ 5|e }} {{ html|urlencode }} {{ 'a b/ü?&'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ [('k', 'ü v')]|urlencode }}
{{ '<a>' ~ (html|safe) ~ '<c>' }} {{ '<a>' + (html|safe) }} {{ (html|safe) + '<c>' }} {{ (html|e)|upper }} {{ [html|safe] }} {{ ('<x>'|safe)[0] }} {{ ('x'|safe) is escaped }} {{ 'x' is escaped }}
{{ '12'|int }} {{ '12.7'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 12.9|int }} {{ -12.9|int }} {{ '0x1f'|int(base=16) }} {{ '1f'|int(0, 16) }} {{ '0b11'|int(0, 2) }} {{ ' 5 '|int }} {{ true|int }} {{ none|int }} {{ '1_000'|int }} {{ '1e3'|int }} {{ ''|int }} {{ [1]|int }} {{ '٣'|length }}
{{ '1.5'|float }} {{ float_text|float }} {{ 'x'|float }} {{ 'x'|float(1) }} {{ 3|float }} {{ '1e3'|float }} {{ none|float }} {{ 'inf'|float }} {{ 'nan'|float }} {{ '-Infinity'|float }} {{ '0x10'|float }} {{ '1_0.5'|float }}
{{ -5|abs }} {{ neg|abs }} {{ -2.5|abs }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 2.5|round(0, 'ceil') }} {{ 2.5|round(method='floor') }} {{ 5|round }} {{ 1234|round(-2) }} {{ 1250.0|round(-2) }} {{ 42.55|round(1) }} {{ 42.55|round|int }} {{ 1.005|round(2) }}
{{ 5|string + 'x' }} {{ none|string }} {{ xs|string }} {{ nope|string }}| {{ 2.0|string }} {{ true|string|lower }}
{{ d|tojson }} {{ mixed|tojson }} {{ odd|tojson }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ '🙂\u007f'|tojson(true) }} {{ html|tojson }} {{ 1e20|tojson }} {{ none|tojson }} {{ (1, 'x')|tojson }} {{ {'a': {}, 'b': []}|tojson }}
{{ nested|tojson(indent=2) }} {{ []|tojson(indent=4) }} {{ {'k': [{}]}|tojson(indent=1) }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(sort_keys=true) }} {{ d|tojson(indent=2, separators=(',', ': '), sort_keys=true) }} {{ xs|tojson(indent='\t') }} {{ d|tojson(indent=0) }}
{{ {1: 'a', none: 'b', true: 'c', 2.5: 'd'}|tojson }} {{ nope|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ json|from_json }} {{ (json|from_json).a[2] }} {{ '[1, {"x": true}]'|from_json }} {{ '5'|from_json + 1 }}
{{ '{bad'|from_json }}
{{ '%s and %d and %.2f' % ('x', 5, 1.239) }} {{ '%5d|%-5d|%05d|%+d' % (42, 42, 42, 42) }} {{ '%x %X %o %#x' % (255, 255, 8, 255) }} {{ '%e %g %G' % (12345.678, 0.00001234, 1e20) }} {{ '%s' % 'one' }} {{ '%s' % xs }} {{ '%%' % () }} {{ '%r %s' % ('a', 'b') }} {{ '%(k)s-%(n)03d' % {'k': 'v', 'n': 7} }} {{ '%10s|%-10s|%.2s' % ('ab', 'cd', 'efgh') }} {{ '%c%c' % (65, 'b') }} {{ '%i' % 3.9 }}
{{ '%s %s' % 'one' }}
{{ '%d' % 'x' }}
{{ '%s'|format('x') }} {{ '%s-%s'|format(1, 2) }} {{ '%(a)s'|format(a=1) }}
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format(1, 2) }} {{ '{a} {b.x} {c[0]}'.format(a=1, b={'x': 2}, c=[3]) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:.2f} {:5d} {:05d} {:,} {:+d} {:x} {:%}'.format(1.239, 42, 42, 1234567, 5, 255, 0.25) }} {{ '{!r} {!s}'.format('a', 'b') }} {{ '{{}} {}'.format(1) }} {{ '{:.3}'.format('abcdef') }} {{ '{}'.format(1.5) }} {{ '{:e} {:g}'.format(12345.678, 0.0001) }} {{ '{:#x} {:#b}'.format(255, 5) }} {{ '{}'.format(none) }} {{ '{:10.3f}|'.format(3.14159) }} {{ '{:_}'.format(1234567) }} {{ '{:08.2f}'.format(-3.14159) }}
{{ '{}'.format() }}
{{ '{:d}'.format('x') }}
{{ n is defined }}{{ nope is defined }}{{ nope is undefined }}{{ nil is none }}{{ n is number }}{{ yes is number }}{{ f is float }}{{ n is integer }}{{ yes is integer }}{{ s is string }}{{ d is mapping }}{{ xs is sequence }}{{ s is sequence }}{{ d is sequence }}{{ n is sequence }}{{ nope is sequence }}{{ xs is iterable }}{{ s is iterable }}{{ n is iterable }}{{ nope is iterable }}{{ nope is mapping }}{{ yes is boolean }}{{ yes is true }}{{ no is false }}{{ 1 is true }}{{ nil is sequence }}{{ range(3) is sequence }}{{ (xs|map('int')) is sequence }}{{ (xs|map('int')) is iterable }}
{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 'AB' is upper }}{{ 'ab' is lower }}{{ 1 is eq 1 }}{{ 1 is ne 1 }}{{ 1 is lt 2 }}{{ 1 is gt 2 }}{{ 1 is le 1 }}{{ 1 is ge 2 }}{{ 1 is in [1] }}{{ 1 is not in [1] }}{{ 'upper' is filter }}{{ 'nope' is filter }}{{ 'odd' is test }}{{ none is sameas none }}{{ 1 is sameas 1 }}{{ yes is sameas true }}{{ n is equalto 5 }}{{ n is not none }}{{ dict is callable }}{{ n is callable }}{{ s is == 'Hello World' }}
{{ 'x' if n is defined and n is not none else 'y' }} {{ not n is string }} {{ n is not string and s is string }} {{ n is divisibleby 5 and yes }} {{ [1, 2] is sequence and 3 }}
{{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'y': 2}, z=3) }} {{ dict() }} {{ d.copy() }} {{ {'a': 1}.get('a') }}
{% set l = [1, 2] %}{% set _ = l.append(3) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}{% set _ = l.extend([4, 5]) %}{{ l }}{% set _ = l.insert(0, 'x') %}{{ l }}{{ l.index(4) }}{{ l.count(5) }}{% set _ = l.remove(4) %}{{ l }}{% set _ = l.reverse() %}{{ l }}{{ l.copy() }}{% set _ = l.clear() %}{{ l }}
{% set e = {'a': 1} %}{% set _ = e.update({'b': 2}) %}{{ e }}{{ e.pop('a') }}{{ e }}{{ e.pop('zz', 9) }}{{ e.setdefault('c', 3) }}{{ e }}{% set _ = e.update(q=1) %}{{ e }}{{ e.popitem() }}{{ e }}
{{ e.pop('zz') }}
{% set l = [1] %}{{ l.pop(5) }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %a %j %p %I %y %%') }} {{ strftime_now('') }}| {{ strftime_now('%d %b %Y') }} {{ strftime_now('%Z%z|%f|%e|%-d') }}
{{ raise_exception('stop ' ~ n) }}
{% if no %}{{ raise_exception('never') }}{% endif %}ok
{{ nope.x }}
{{ nope['x'] }}
{{ nope() }}
{{ nope + 1 }}
{{ d.zz.y }}
{{ xs[7].y }}
{{ nil.x.y }}
{{ s.nope }}| {{ s.nope() }}
{{ n() }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 'a' < 1 }}
{{ none < 1 }}
{{ nope < 1 }}
{{ 1 in 5 }}
{{ 5 in 'abc' }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1.0 // 0 }}
{{ 5|length }}
{{ 5|list }}
{% for x in 5 %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{{ -'x' }}
{{ xs|nofilter }}
{{ xs is notest }}
{{ [[]]|unique|list }}
{{ {[]: 1} }}
{{ xs|map|list }}
{{ xs|map('upper', 1)|list }}
{{ s.split('') }}
{{ 'abc'.center(5, 'xx') }}
{{ xs|sort(attribute='q') }}
{{ mixed|sort }}
{{ users|groupby('tag') }}
{{ d|dictsort(by='x') }}
{{ range(1000001) }}
{{ range(1, 2, 0) }}
{% set d.x = 1 %}
{% set n.x = 1 %}
{{ unclosed
{% if yes %}x
{% for %}{% endfor %}
{% endif %}
{% unknown %}
{{ 'abc }}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ a b }}
{{ 1 = 2 }}
{{ x.1a }}
{{ }}
{# open
{% raw %}x
{{ 'a' is }}
{{ x| }}
{{ f(a=1, 2) }}
{% set 5 = 1 %}
{% macro m(a=1, b) %}{% endmacro %}
{% break %}
{{ $ }}
{{ a ! b }}
{{ 'x' is string is string }}
{{ xs }} trailing
{{ not }}
{{ {'a' 1} }}
{{ {'a': 1,} }}{{ [1,] }}{{ (1,) }}{{ dict(a=1,) }}{{ 1, 2 }}{{ (1, 2,) }}
{{ xs
   |sort
   |join(',')
}}
{{ loop }}|{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop }}|
{{ n.real if false else 'x' }} {{ d.keys()|list|sort|join }} {{ d.values()|sum }} {{ (d.items()|list)[0][1] }}
{{ {'a': 1} == {'a': 1.0} }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ [1, [2]] != [1, [2]] }} {{ 1 == '1' }} {{ nope == nope2 }} {{ nope == none }}
{{ {1: 'int', '1': 'str'}[1] }} {{ {true: 'x'}[1] }} {{ {1.0: 'y'}[1] }} {{ {none: 'z'}[none] }} {{ {(1, 2): 't'}[(1, 2)] }}
{% set it = xs|map('string') %}{{ it|join }}{{ it|join }}| {% set it = xs|map('string') %}{{ it|first }}
{{ xs|select('defined')|map('string')|map('upper')|join('-') }} {{ (xs|sort)[0] }} {{ (s|upper).lower() }} {{ s.upper().lower().title() }} {{ 'a-b'.split('-')[1] }} {{ 'a-b'.split('-')|last }}
{{ "%s" % none }} {{ "a" "b" ~ "c" }} {{ 'x'.upper ~ '' if false else 'skip' }} {{ (1 if true else 2) + 3 }} {{ [1 if true else 2, 3][0] }}
{{ 1 if true else 2 + 3 }} {{ true and 1 if false else 'z' }} {{ 'a' in 'abc' and 'b' not in 'xyz' }} {{ not 'a' in 'abc' }} {{ 1 + 1 == 2 and 'ok' }}
{{ 5 is number and 5 > 3 }} {{ (5 > 3) is true }} {{ 5|string is string }} {{ -5|string }} {{ -5|abs }} {{ 2 * n|float }} {{ n|float * 2 }} {{ 'a' ~ 'b'|upper }} {{ 'a' + 'b'|upper }}
{% set x = namespace() %}{% set x.list = [] %}{% for i in range(3) %}{% set x.list = x.list + [i] %}{% endfor %}{{ x.list }}
{% for item in nested.x.y %}{{ item }}{% if not loop.last %}, {% endif %}{% endfor %} {% for k, v in nested.x.items() %}{{ k }}: {{ v }}{% endfor %}
{% for x in xs -%}   {{ x }}   {%- endfor %} {% for x in xs %} {{- x -}} {% endfor %}
{%- set a = 1 -%}   {{ a }}   {%- set b = 2 %}   {{ b }}
{% if yes -%}
   kept?
{%- endif %}
{% for x in [{'v': 1, 'c': [{'v': 2}, {'v': 3, 'c': [{'v': 4}]}]}] recursive %}{{ loop.depth }}:{{ x.v }}{% if x.c %}({{ loop(x.c) }}){% endif %}{{ ',' if not loop.last }}{% endfor %}
{% for x in xs %}{{ loop(xs) }}{% endfor %}
{% include 'x' %}
{% do xs.append(1) %}
{{ "a" if nope is defined else "b" }}{{ nope is not defined or nope.x }}{{ nope is defined and nope.x }}
{{ 1.e5 }}
{{ ''.join(['a', 'b'])|length }} {{ 'abc'[1] }} {{ 'abc'[5] }}| {{ [1, 2, 3][1:][0] }} {{ ('a', 'b').index('b') }} {{ 'x'|attr('upper') is callable }} {{ d|attr('zz') }}|
{{ u|upper|lower|length }} {{ 'ŉ ǰ ﬃ ß'|upper }} {{ 'ß'|title }} {{ 'ﬁx'|capitalize }} {{ 'İ'|lower|length }} {{ 'Ǆ'|title }} {{ 'éa ǆ'.title() }}
{{ '\u2028' in 'a\u2028' }} {{ 'é' == '\u00e9' }} {{ 'z' < 'é' }} {{ ['é', 'z', 'a']|sort|join }} {{ ['B', 'a', 'C']|sort|join }} {{ '\t'|tojson }} {{ '\u0000'|tojson }}
""".strip("\n")


def snippets():
    """Each line is a template; lines that a template needs to span are joined by the caller's escapes: a line ending in a
    backslash-free open tag goes on in the next line."""
    out, part = [], ""
    for line in SNIPPETS.split("\n"):
        part = part + "\n" + line if part else line
        if part in ("{{ xs", "{{ xs\n   |sort", "{{ xs\n   |sort\n   |join(',')", "{% if yes -%}", "{% if yes -%}\n   kept?"):
            continue
        out.append(part)
        part = ""
    return out + BLOCKS


# White space around tags, several lines each.
BLOCKS = [
    "a\n  {% if yes %}\n    b\n  {% endif %}\nc\n",
    "a\n  {%+ if yes %}\n    b\n  {%- endif %}\nc\n\n",
    "  {# c #}\nx\n  {#- c -#}  \ny {# z #}\nw\n",
    "{% for x in xs %}\n  * {{ x }}\n{% endfor %}\nend\n",
    "{%- for x in xs %}\n\n{{ x }}\n\n{%- endfor -%}\n\nend",
    "\n\n{{ n }}\n\n",
    "{{ n }}\n",
    "{{ n }}\n\n",
    "\r\na\r\n{% if yes %}\r\nb\rc\n{% endif %}\r\n",
    "  {% raw %}\n {{ x }}\n  {% endraw %}\n y",
    "{% raw -%}\n {{ x }}\n  {%- endraw %}\n y",
    "  {{ n }}  {% set a = 1 %}  {{ a }}\n  {% set b %}\n  in\n  {% endset %}  \n[{{ b }}]",
    "\u00a0{%- if yes %}\u2003x{% endif -%}\u00a0 y",
    "x {%- macro m() -%} in {%- endmacro %} y {{ m() }}",
    "{%if yes%}a{%endif%}{{n}}{{-n-}}  {{+n}}",
    "{{ '{{' }} {{ '%}' }} {{ '}}' }} { { } } {x} % }} %}",
    "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {}} }}",
    "# heading\n## {{ s }}\n{#\nmany\nlines\n#}\nafter",
    "{% if no %}\n{% elif yes %}\n  x\n{% else %}\n{% endif %}",
    "a{% if yes %} {% endif %}b{% if yes %}\n{% endif %}c{% if yes +%}\n{% endif %}d",
    "",
    "\n",
    "plain text only",
]
