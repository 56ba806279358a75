# glibc.sh -- libvramguard.so loads in old containers: no symbol above GLIBC_2.28, nothing needed but libc.
# SPDX-License-Identifier: Apache-2.0
library=$BUILD/libvramguard.so
objdump=${OBJDUMP:-objdump}
[ -e "$library" ] || { echo "$library is not built"; exit 1; }
newest=$("$objdump" -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
[ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -1)" = GLIBC_2.28 ] || {
    "$objdump" -T "$library" | grep "$newest"
    echo "needs $newest; at most GLIBC_2.28"
    exit 1
}
other=$("$objdump" -T "$library" | grep -oE '\((GCC|CXXABI|GLIBCXX)[^)]*\)' | sort -u)
[ -z "$other" ] || { echo "needs other versioned symbols: $other"; exit 1; }
needed=$("$objdump" -p "$library" | awk '$1 == "NEEDED" { print $2 }')
[ "$(grep -vE '^(libc\.so\.6|ld-linux-(x86-64\.so\.2|aarch64\.so\.1))$' <<<"$needed")" = '' ] || { echo "needs: $needed; only libc.so.6 is allowed"; exit 1; }
"$objdump" -p "$library" | grep -qE 'RPATH|RUNPATH' && { echo "has a run path"; exit 1; }
echo "newest is $newest, needs $(tr '\n' ' ' <<<"$needed")"
