#!/usr/bin/env bash
# The README's table of findings has every check, and no other.
set -euo pipefail
cd "$MN_SOURCE_DIR"
in_sources=$({
  cat launcher/check_*.cpp | tr -d '\n ' | grep -oE '(\{|differing\([a-z]+,)"[a-z-]+",(true|false|fatal|breaks_jobs|free<|std::abs)'
  grep -ohE 'error \[[a-z]+\]' launcher/*.cpp
} | grep -oE '"[a-z-]+"|\[[a-z-]+\]' | tr -d '"[]' | sort -u)
in_readme=$(sed -n '/^| finding |/,/^$/p' README.md | grep -oE '\[[a-z-]+\]' | tr -d '[]' | sort -u)
diff <(echo "$in_sources") <(echo "$in_readme") || { echo "left: checks, right: README.md" >&2; exit 1; }
