#!/usr/bin/env bash
# The documents' table of findings has every check, and no other.
set -euo pipefail
cd "$MN_SOURCE_DIR"
in_sources=$({
  cat launcher/checks/*.cpp launcher/node/node_check.cpp | tr -d '\n ' | grep -oE '(error_of|warning_of|found|finding)\("[a-z-]+"'
  tr -d '\n ' <launcher/node/expectations.cpp | grep -oE '\{"[a-z-]+","[a-z-]+","[^"]*",Rule' | cut -d, -f2
  tr -d '\n ' <launcher/node/expectations.cpp | grep -oE 'error_of\("[a-z-]+"'
  grep -ohE 'error \[[a-z]+\]' launcher/*.cpp launcher/place/*.cpp
} | grep -oE '"[a-z-]+"|\[[a-z-]+\]' | tr -d '"[]' | sort -u)
documented=$(sed -n '/^| finding |/,/^$/p' docs/launcher.md | grep -oE '\[[a-z-]+\]' | tr -d '[]' | sort -u)
diff <(echo "$in_sources") <(echo "$documented") || { echo "left: checks, right: docs/launcher.md" >&2; exit 1; }
