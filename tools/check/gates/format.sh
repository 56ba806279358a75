# format.sh -- every C file is as .clang-format has it. Tables (*.def) are laid out by hand.
# SPDX-License-Identifier: Apache-2.0
#
# Held to the version that the committed style was written with: another one breaks lines elsewhere.
tool=$(command -v clang-format-14 || command -v clang-format) || { echo "clang-format is not installed (make deps LEVEL=ci)"; exit 77; }
"$tool" --version | grep -q 'version 14\.' || { echo "clang-format is not version 14"; exit 77; }
mapfile -t files < <(git ls-files '*.c' '*.h')
bad=()
for file in "${files[@]}"; do
    [ -e "$file" ] || continue
    "$tool" "$file" | cmp -s - "$file" || bad+=("$file")
done
if [ "${#bad[@]}" != 0 ]; then
    for file in "${bad[@]}"; do "$tool" "$file" | diff -u --label "$file" --label "$file, formatted" "$file" - | head -12; done
    echo "${#bad[@]} of ${#files[@]} files are not formatted; \`make format\` does it: ${bad[*]}"
    exit 1
fi
echo "${#files[@]} files"
