# places.sh -- nothing committed names a place of the machine it was written on, or a package registry's host.
# SPDX-License-Identifier: Apache-2.0
#
# This checkout's own folder, the home folder, and absolute paths where machines like this one keep theirs; an invented /home/u/train.py is fine.
self=tools/check/gates/places.sh
top=$(pwd -P)
found=$(
    git grep -nIE '(^|[^A-Za-z0-9_.])/(work|root)/[A-Za-z0-9_.]|pypi\.org|pythonhosted\.org|deb\.debian\.org|files\.python' -- . ":!$self"
    git grep -nIF -e "$top/" -e "${HOME:-$top}/" -- . ":!$self"
)
[ -z "$found" ] || { echo "$found"; exit 1; }
echo "$(git ls-files | wc -l) files"
