/// Structs to JSON objects and back, from one list of their fields. For a struct T, list_fields(facts, visitor), in T's
/// namespace, calls visitor(name, field) for each field, and visitor(name, field, kNeeded) for a field that must be
/// present; `facts` may be const. Fields nest: structs with a list, optionals, vectors, maps by name, and types that
/// nlohmann::json converts. A CpuSet travels as Linux writes it.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "bind/cpu_set.hpp"

namespace mn::launcher::json_fields {

inline constexpr bool kNeeded = true;

/// Constrains the first parameter of list_fields(): a Struct, const or not.
template <typename T, typename Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

template <typename T>
concept Listed = requires(T& value) {
  list_fields(value, [](const char*, auto&, bool = false) {});
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsMap = false;
template <typename T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;

template <typename T>
nlohmann::json write(const T& value);

/// Writes a struct with a list of fields. For the source file of the list: other files see a type that nlohmann::json
/// converts.
template <typename T>
nlohmann::json write_fields(const T& value) {
  auto object = nlohmann::json::object();
  list_fields(value, [&](const char* name, const auto& field, bool = false) {
    if constexpr (kIsOptional<std::remove_cvref_t<decltype(field)>>) {
      if (field) object[name] = write(*field);
    } else {
      object[name] = write(field);
    }
  });
  return object;
}

template <typename T>
nlohmann::json write(const T& value) {
  if constexpr (Listed<T>) {
    return write_fields(value);
  } else if constexpr (kIsVector<T>) {
    auto array = nlohmann::json::array();
    for (const auto& item : value) array.push_back(write(item));
    return array;
  } else if constexpr (kIsMap<T>) {
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

/// `where`: path to `json`, as in system.limits.memlock; empty for the whole document.
template <typename T>
void read(const nlohmann::json& json, const std::string& where, T& value);

/// Reads a struct with a list of fields; like write_fields(), for the source file of the list.
template <typename T>
void read_fields(const nlohmann::json& json, const std::string& where, T& value) {
  expect(json.is_object(), where, "an object", json);
  list_fields(value, [&](const char* name, auto& field, bool needed = false) {
    const std::string path = where.empty() ? name : where + "." + name;
    const auto found = json.find(name);
    if (found != json.end() && !found->is_null()) {
      read(*found, path, field);
    } else if (needed) {
      fail(path, "is absent");
    }
  });
}

template <typename T>
void read(const nlohmann::json& json, const std::string& where, T& value) {
  if constexpr (Listed<T>) {
    read_fields(json, where, value);
  } else if constexpr (kIsOptional<T>) {
    read(json, where, value.emplace());
  } else if constexpr (kIsVector<T>) {
    expect(json.is_array(), where, "an array", json);
    for (std::size_t i = 0; i < json.size(); ++i) {
      read(json[i], where + "[" + std::to_string(i) + "]", value.emplace_back());
    }
  } else if constexpr (kIsMap<T>) {
    expect(json.is_object(), where, "an object", json);
    for (const auto& [name, item] : json.items()) read(item, where + "[" + json_quoted(name) + "]", value[name]);
  } else if constexpr (std::same_as<T, CpuSet>) {
    expect(json.is_string(), where, "a list of CPUs", json);
    value = parse_cpus(json.get_ref<const std::string&>());
  } else {
    try {
      json.get_to(value);
    } catch (const nlohmann::json::exception& error) {
      fail(where, std::string("does not have the expected form: ") + error.what());
    }
  }
}

}  // namespace mn::launcher::json_fields
