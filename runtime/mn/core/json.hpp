/// Reads JSON and CBOR (RFC 8949) from untrusted files and processes. The depth of documents is bounded, and errors
/// have one line.
///
/// nlohmann copies, compares and writes documents by recursion, and reads CBOR by recursion, so a million brackets
/// would overflow the stack. Therefore parse_json() and parse_cbor() first measure the depth without recursion, and
/// reject deep documents. Cost: two passes over the bytes.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mn/core/error.hpp>

/// nlohmann::json is compiled only in json.cpp.
extern template class nlohmann::basic_json<>;

namespace mn {

constexpr int kMaxJsonDepth = 64;

/// Parses `text`, which must be one JSON document and nothing else. Throws a one-line DataError, "WHAT …: … at byte N".
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view what);
/// Parses `bytes`, which must be one CBOR document as to_cbor() writes it. Throws a DataError like parse_json().
[[nodiscard]] nlohmann::json parse_cbor(std::string_view bytes, std::string_view what);

/// The text of nlohmann's exception without the exception's name and number, with which it begins.
[[nodiscard]] std::string reason_of(const nlohmann::json::exception& error);

/// Calls read(), which takes values out of a document. If a value is missing or has a wrong type, throws a DataError
/// that begins with `what`.
template <class Read>
decltype(auto) read_json(std::string_view what, Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(std::string(what) + " does not have the expected form: " + reason_of(error));
  }
}

/// Returns the value if it is a whole number in T's range. Otherwise throws nlohmann's type_error, which read_json()
/// turns into a DataError. nlohmann's own conversion would turn 1.5 into 1, and would wrap a number out of range.
template <std::integral T>
T whole_number(const nlohmann::json& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits) {
    throw nlohmann::json::type_error::create(302, value.dump().substr(0, 40) + " is not a number of the expected kind",
                                             &value);
  }
  return value.get<T>();
}
/// Returns whole_number() of a value that must be at least 0, for example a count of iterations.
[[nodiscard]] std::int64_t count_of(const nlohmann::json& value);
template <std::integral T>
std::vector<T> whole_numbers(const nlohmann::json& list) {
  const auto& values = list.get_ref<const nlohmann::json::array_t&>();
  std::vector<T> numbers;
  for (const nlohmann::json& value : values) numbers.push_back(whole_number<T>(value));
  return numbers;
}

/// Writes the document as text, on one line unless `indent` is given. Bytes that are not UTF-8, as in some names of
/// files, become U+FFFD; nlohmann's dump() would throw an exception.
[[nodiscard]] std::string json_text(const nlohmann::json& document, int indent = -1);

/// Replaces each byte that is not UTF-8 by its number, for example "\\xE9". Use the result for names in JSON.
[[nodiscard]] std::string utf8_text(std::string_view text);

/// Returns a form of `value` that JSON text can express. Infinite numbers, NaN, bytes, texts that are not UTF-8, and
/// objects with keys that are not UTF-8 become {"$cbor": HEX}. Throws DataError for values without a CBOR form, and for
/// values that nest so deep that an enclosing document might exceed kMaxJsonDepth.
[[nodiscard]] nlohmann::json storable(const nlohmann::json& value);
/// Returns the value from which storable() made `stored`. Throws DataError beginning with `what` if it is damaged.
[[nodiscard]] nlohmann::json from_storable(const nlohmann::json& stored, std::string_view what);

/// Quotes text from a file on a single line. A long text ends with an ellipsis.
[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace mn
