#include <mn/nn/exported/argument.hpp>

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <mn/core/json.hpp>

namespace mn::exported {
namespace {

using nlohmann::json;
using Value = Argument::Value;
using Parse = Value (*)(const json& document, const Rename& rename);

Value parse_none(const json&, const Rename&) { return {}; }
Value parse_bool(const json& document, const Rename&) { return document.get<bool>(); }
Value parse_int(const json& document, const Rename&) { return whole_number<std::int64_t>(document); }
Value parse_text(const json& document, const Rename&) { return document.get<std::string>(); }
Value parse_device(const json&, const Rename&) { return AnyDevice{}; }
Value parse_name(const json& document, const Rename& rename) { return ValueName{rename(document.get<std::string>())}; }
Value parse_named(const json& document, const Rename& rename) { return parse_name(document.at("name"), rename); }
/// Parses a union: a JSON object with one member, whose name is the union's form.
Value parse_nested(const json& document, const Rename& rename) { return parse_argument(document, rename).value; }

/// JSON has no infinities; torch writes them as strings.
Value parse_real(const json& document, const Rename&) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (document == "Infinity") return kInfinity;
  if (document == "-Infinity") return -kInfinity;
  if (document == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return document.get<double>();
}

Value parse_complex(const json& document, const Rename& rename) {
  const auto part = [&](const char* name) { return std::get<double>(parse_real(document.at(name), rename)); };
  return std::complex<double>(part("real"), part("imag"));
}

template <Enumerator::Kind kind>
Value parse_enumerator(const json& document, const Rename&) {
  return Enumerator{kind, whole_number<std::int64_t>(document)};
}

template <Parse item>
Value parse_list(const json& document, const Rename& rename) {
  std::vector<Argument> items;
  for (const json& each : document) items.push_back({"an item", item(each, rename)});
  return items;
}

/// The forms of an argument in torch/_export/serde/schema.py (class Argument, and the unions within it).
constexpr std::pair<std::string_view, Parse> kForms[] = {
    {"as_none", parse_none},
    {"as_tensor", parse_named},
    {"as_optional_tensor", parse_nested},
    {"as_tensors", parse_list<parse_named>},
    {"as_optional_tensors", parse_list<parse_nested>},
    {"as_name", parse_name},
    {"as_bool", parse_bool},
    {"as_int", parse_int},
    {"as_float", parse_real},
    {"as_complex", parse_complex},
    {"as_string", parse_text},
    {"as_bools", parse_list<parse_bool>},
    {"as_ints", parse_list<parse_int>},
    {"as_floats", parse_list<parse_real>},
    {"as_strings", parse_list<parse_text>},
    {"as_sym_bool", parse_nested},
    {"as_sym_int", parse_nested},
    {"as_sym_float", parse_nested},
    {"as_sym_bools", parse_list<parse_nested>},
    {"as_sym_ints", parse_list<parse_nested>},
    {"as_sym_floats", parse_list<parse_nested>},
    {"as_scalar_type", parse_enumerator<Enumerator::Kind::kScalarType>},
    {"as_memory_format", parse_enumerator<Enumerator::Kind::kMemoryFormat>},
    {"as_layout", parse_enumerator<Enumerator::Kind::kLayout>},
    {"as_device", parse_device},
};

}  // namespace

std::string form_of(const json& document) {
  if (!document.is_object() || document.size() != 1) throw UnknownForm("a union that is not of one form");
  return document.begin().key();
}

Argument parse_argument(const json& document, const Rename& rename) {
  const std::string form = form_of(document);
  for (const auto& [known, parse] : kForms) {
    if (known == form) return {form, parse(document.at(form), rename)};
  }
  throw UnknownForm("an argument of the unknown form " + json_quoted(form));
}

void append_values(std::vector<std::string>& names, const Argument& argument) {
  if (const auto* value = std::get_if<ValueName>(&argument.value)) names.push_back(value->name);
  if (const auto* items = std::get_if<std::vector<Argument>>(&argument.value)) {
    for (const Argument& item : *items) append_values(names, item);
  }
}

}  // namespace mn::exported
