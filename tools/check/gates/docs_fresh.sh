# docs_fresh.sh -- the generated pages of docs/ are what the tool prints today (`make docs`).
# SPDX-License-Identifier: Apache-2.0
tool=$BUILD/vramguard
[ -x "$tool" ] || { echo "$tool is not built"; exit 1; }
status=0
while read -r page option; do
    if ! "$tool" help "$option" | diff -u --label "docs/$page" --label "help $option" "docs/$page" - >"$BUILD/docs.diff" 2>&1; then
        head -20 "$BUILD/docs.diff"
        echo "docs/$page is stale: \`make docs\`"
        status=1
    fi
done < <(sed -n 's/^DOC_PAGES *:= *//p' Makefile | tr ' ' '\n' | tr '=' ' ')
rm -f "$BUILD/docs.diff"
[ "$status" = 0 ] && echo "options, hooks, man page"
exit "$status"
