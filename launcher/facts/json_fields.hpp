/// Converts structs to JSON objects and back. A struct lists its fields by a macro of mn/core/fields.hpp. A field may
/// be another such struct, an optional, a vector, a map by name, or any type that nlohmann::json converts. A CpuSet has
/// Linux's text form, for example 0-3,8.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "bind/cpu_set.hpp"

namespace mn::launcher::json_fields {

template <typename T>
concept Listed = requires {
  T::kFieldNames;
};
template <typename T>
concept Optional = requires(T value) {
  value.emplace();
  value.has_value();
};
template <typename T>
concept Map = requires {
  typename T::mapped_type;
};
template <typename T>
concept Vector = requires(T value) {
  value.emplace_back();
};

/// Removes and returns the first name of `names`, which are separated by commas.
inline std::string take_name(std::string_view& names) {
  const std::size_t comma = names.find(',');
  const std::string name(names.substr(0, comma));
  names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 2);
  return name;
}

template <typename Struct>
bool is_needed(const std::string& name) {
  if constexpr (requires { Struct::kNeededNames; }) {
    for (std::string_view names = Struct::kNeededNames; !names.empty();) {
      if (take_name(names) == name) return true;
    }
  }
  return false;
}

/// Calls visit(name, field) for each field of the struct `value`, in the order of T::kFieldNames.
template <typename T, typename Visit>
void visit_fields(T& value, Visit visit) {
  std::string_view names = T::kFieldNames;
  std::apply([&](auto&... field) { (visit(take_name(names), field), ...); }, value.fields());
}

template <typename T>
nlohmann::json write(const T& value) {
  if constexpr (Listed<T>) {
    auto object = nlohmann::json::object();
    visit_fields(value, [&](const std::string& name, const auto& field) {
      if constexpr (Optional<std::remove_cvref_t<decltype(field)>>) {
        if (field) object[name] = write(*field);
      } else {
        object[name] = write(field);
      }
    });
    return object;
  } else if constexpr (Vector<T>) {
    auto array = nlohmann::json::array();
    for (const auto& item : value) array.push_back(write(item));
    return array;
  } else if constexpr (Map<T>) {
    auto object = nlohmann::json::object();
    for (const auto& [name, item] : value) object[name] = write(item);
    return object;
  } else if constexpr (std::same_as<T, CpuSet>) {
    return format_cpus(value);
  } else {
    return value;
  }
}

[[noreturn]] inline void fail(const std::string& where, const std::string& what) {
  throw DataError((where.empty() ? "the document" : where) + " " + what);
}

inline void expect(bool has_type, const std::string& where, const char* type, const nlohmann::json& json) {
  if (!has_type) fail(where, std::string("is not ") + type + " but of type " + json.type_name());
}

/// Converts `json` to `value`. `where` is its position in the document for error texts, for example
/// system.limits.memlock; empty for the whole document. Throws DataError.
template <typename T>
void read(const nlohmann::json& json, const std::string& where, T& value) {
  if constexpr (Listed<T>) {
    expect(json.is_object(), where, "an object", json);
    visit_fields(value, [&](const std::string& name, auto& field) {
      const std::string path = where.empty() ? name : where + "." + name;
      const auto found = json.find(name);
      if (found != json.end() && !found->is_null()) {
        read(*found, path, field);
      } else if (is_needed<T>(name)) {
        fail(path, "is absent");
      }
    });
  } else if constexpr (Optional<T>) {
    read(json, where, value.emplace());
  } else if constexpr (Vector<T>) {
    expect(json.is_array(), where, "an array", json);
    for (std::size_t i = 0; i < json.size(); ++i) {
      read(json[i], where + "[" + std::to_string(i) + "]", value.emplace_back());
    }
  } else if constexpr (Map<T>) {
    expect(json.is_object(), where, "an object", json);
    for (const auto& [name, item] : json.items()) read(item, where + "[" + json_quoted(name) + "]", value[name]);
  } else if constexpr (std::same_as<T, CpuSet>) {
    expect(json.is_string(), where, "a list of CPUs", json);
    value = parse_cpus(json.get_ref<const std::string&>());
  } else {
    try {
      if constexpr (std::integral<T> && !std::same_as<T, bool>) {
        value = whole_number<T>(json);
      } else {
        json.get_to(value);
      }
    } catch (const nlohmann::json::exception& error) {
      fail(where, std::string("does not have the expected form: ") + error.what());
    }
  }
}

}  // namespace mn::launcher::json_fields
