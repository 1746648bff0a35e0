"""Small changes of C++ sources: where they can be made, and sources that have all of them and choose one at run time.

A condition becomes its opposite, a statement is left out, a sum becomes a difference. mn_mutants::on(3) is true where
change 3 is chosen (HEADER)."""
import re

from planting import ROOT

HEADER = """#pragma once
#include <cstdint>
namespace mn_mutants {
extern const int chosen;
extern bool reached[];
inline bool on(int place) { reached[place] = true; return place == chosen; }
inline int sign(int place) { return on(place) ? -1 : 1; }
}
"""
KEYWORDS = set("return throw using static const constexpr auto if for while do switch case default else break continue "
               "namespace class struct template public private protected try catch typedef friend explicit virtual enum "
               "delete new extern inline alignas static_assert".split())
DECLARATION = re.compile(r"\s*(?:const\s+)?(?:auto\b|[\w:]+(?:<[^;=]*>)?[\s&*]+\w+\s*(?:=[^=]|\{))")
CONDITION = re.compile(r"\b(if|while)\s*\(")
STATEMENT = re.compile(r"(?:\+\+|--)?[A-Za-z_]\w*(?:::\w+)*(?:(?:\.|->)\w+)*\s*(?:\(|\[|[-+*/|&]?=(?!=)|\+\+\s*;|--\s*;|;)")
SIGN = re.compile(r"(?<=[\w\])]) ([-+])(=?) (?=[\w(])")
QUIET = re.compile(r"log_\w+\(|note_progress")  # what nobody computes with


def blanked(text):
    """Comments and literals become blanks, so that offsets stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\])\'|^[ \t]*#[^\n]*', re.S | re.M)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def closing(code, at):
    """Offset of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    return None


def conditions(code):
    for found in CONDITION.finditer(code):
        begin = found.end() - 1
        end = closing(code, begin)
        inside = code[begin + 1 : end]
        if end is None or ";" in inside or DECLARATION.match(inside):
            continue
        if found[1] == "if":
            yield begin + 1, end, "mn_mutants::on(PLACE) != static_cast<bool>(", ")", "opposite of"
        else:
            yield begin + 1, end, "!mn_mutants::on(PLACE) && static_cast<bool>(", ")", "never"


def statements(code):
    for line in re.finditer(r"^([ \t]{2,})(?=\S)", code, re.M):
        begin = line.end()
        before = code[:begin].rstrip()
        found = STATEMENT.match(code, begin)
        if not found or before[-1:] not in (";", "{", "}", ")") or re.search(r"\w+", code[begin:])[0] in KEYWORDS:
            continue
        if before.endswith(")") and not re.search(r"\b(?:if|for|while)\b[^;{}]*$", before) or QUIET.match(code, begin):
            continue
        end = begin
        while end is not None and end < len(code) and code[end] != ";":
            if code[end] == "{" and code[:end].rstrip()[-1:] != "=":
                end = None
            else:
                end = (closing(code, end) if code[end] in "([{" else end) + 1
        if end is None or re.match(r"\s*else\b", code[end + 1 :]) or re.search(r"= (delete|default)$", code[begin:end]):
            continue
        yield begin, end + 1, "if (!mn_mutants::on(PLACE)) ", "", "without"


def signs(code, text):
    for found in SIGN.finditer(code):
        line = text[text.rfind("\n", 0, found.start()) + 1 : text.find("\n", found.start())]
        if '"' not in line and "operator" not in line:
            yield found.end(), found.end(), "mn_mutants::sign(PLACE) * ", "", "other sign after"


def places_of(path):
    text = path.read_text()
    code = blanked(text)
    places = []
    for begin, end, opens, closes, how in [*conditions(code), *statements(code), *signs(code, text)]:
        line = text.count("\n", 0, begin) + 1
        shown = " ".join(text[begin:end].split()) if end > begin else text.splitlines()[line - 1].strip()
        places.append({"source": path.relative_to(ROOT).as_posix(), "line": line, "begin": begin, "end": end,
                       "opens": opens, "closes": closes, "what": f"{how} {shown}"})
    return places


def name_of(place):
    return f"{place['source']}:{place['line']}:{place['begin']} {place['what']}"


def mutated(path, places):
    """The source with all changes, on the same lines."""
    inserts = [(place["begin"], place["opens"].replace("PLACE", str(place["id"]))) for place in places]
    inserts += [(place["end"], place["closes"]) for place in places]
    text = path.read_text()
    for at, what in sorted(inserts, reverse=True):
        text = text[:at] + what + text[at:]
    return text
