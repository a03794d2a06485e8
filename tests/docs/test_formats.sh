#!/bin/sh
# docs/FORMATS.md has one row for every tensor type of src/quant/list.h, with its id, values and bytes, and no other row; and
# its limits are those of the code.
set -u
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
check() { # check WHAT EXPECTED FOUND
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s:\nexpected\n%s\nfound\n%s\n' "$1" "$2" "$3"
    fi
}
code=$(sed -n 's/^CH_TYPE_ROW("\([a-z0-9_]*\)", [A-Z0-9_]*, \([0-9]*\), \([0-9]*\), \([0-9]*\), \([^,]*\), \([^,)]*\)).*/\2 \1 \3 \4 \6/p' \
    src/quant/list.h | sed 's/ NULL$/ -/; s/ ch_quant_encode.*/ yes/' | sort -n)
doc=$(awk -F'|' '/^\| *[0-9]+ \| [a-z0-9_]+ \| [0-9]+ \| [0-9]+ \| [0-9.]+ \|/ {
    gsub(/ /, ""); print $2, $3, $4, $5, ($8 == "" ? "-" : $8)
    if ($5 * 8 / $4 != $6) print "wrong bits per value" }' docs/FORMATS.md | sort -n)
check "tensor types (id, name, values, bytes, encoder)" "$code" "$doc"
check "number of tensor types" 35 "$(echo "$doc" | wc -l)"

limit() { # limit MACRO: its value in src/gguf/part.h
    awk -v m="$1" '$2 == m { v = $0; sub(/.*[A-Z_]+ /, "", v); sub(/ *\/\/.*/, "", v); gsub(/\(size_t\)|[()]/, "", v)
        n = split(v, p, "<<"); print n == 2 ? p[1] * 2 ^ p[2] : v }' src/gguf/part.h
}
stated() { sed -n "s/^| $1 | \(.*\) |\$/\1/p" docs/FORMATS.md | tr -d ,; }
check "keys per file" "$(limit CH_GGUF_MAX_KEYS)" "$(stated 'keys per file')"
check "tensors per model" "$(limit CH_GGUF_MAX_TENSORS)" "$(stated 'tensors per model')"
check "bytes of a tensor name" "$(limit CH_GGUF_MAX_NAME)" "$(stated 'bytes of a tensor name')"
check "bytes of a key" "$(limit CH_GGUF_MAX_KEY)" "$(stated 'bytes of a key')"
check "shards" "$(limit CH_GGUF_MAX_SHARDS)" "$(stated shards)"
check "matrices of a panel file" "$(sed -n 's/.*CH_PANELS_MAX_ENTRIES = 1 << \([0-9]*\).*/\1/p' src/model/panels.h | awk '{ print 2 ^ $1 }')" \
    "$(stated 'matrices of a panel file')"
check "alignment" "power of two $(limit CH_GGUF_MIN_ALIGN) to $(limit CH_GGUF_MAX_ALIGN)" "$(stated alignment)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
