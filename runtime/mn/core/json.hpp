/// JSON and CBOR (RFC 8949) that come from files and other processes, and may be damaged.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mn/core/error.hpp>

/// Instantiated once, in json.cpp, not in each source that uses JSON.
extern template class nlohmann::basic_json<>;

namespace mn {

/// Arrays and objects within each other that are accepted. nlohmann copies, compares and writes documents by recursion,
/// and reads CBOR so: a deep one overflows the stack.
constexpr int kMaxJsonDepth = 64;

/// Each throws DataError of one line, "WHAT …: … at byte N", unless the whole of `text` or `bytes` is one document.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view what);
/// Takes what to_cbor() writes: definite lengths, no tags.
[[nodiscard]] nlohmann::json parse_cbor(std::string_view bytes, std::string_view what);

/// Returns read(), which takes values out of a document; what is absent or has another type becomes a DataError that
/// begins with `what`.
template <class Read>
decltype(auto) read_json(std::string_view what, Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(std::string(what) + " does not have the expected form: " + error.what());
  }
}

/// A whole number that T holds. Throws nlohmann's type_error, which read_json() makes a DataError of, for others: its
/// own conversions cut fractions off, and are undefined for what is too large.
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
/// A whole_number() that is not below 0, as a count of iterations.
[[nodiscard]] std::int64_t count_of(const nlohmann::json& value);
/// A whole_number() of each element of an array.
template <std::integral T>
std::vector<T> whole_numbers(const nlohmann::json& list) {
  const auto& values = list.get_ref<const nlohmann::json::array_t&>();
  std::vector<T> numbers;
  for (const nlohmann::json& value : values) numbers.push_back(whole_number<T>(value));
  return numbers;
}

/// `document` as text, on one line unless `indent` is given. Bytes that are not UTF-8, which names of files and hosts
/// may have, become U+FFFD; dump() throws there.
[[nodiscard]] std::string json_text(const nlohmann::json& document, int indent = -1);

/// The text with "\\xE9" in place of a byte E9 that is not of UTF-8: for names that JSON is to hold.
[[nodiscard]] std::string utf8_text(std::string_view text);

/// The value as JSON text can hold it, however the program made it: a number that is not finite, text that is not
/// UTF-8, bytes, and an object with such a key become {"$cbor": HEX}. Throws DataError for what has no CBOR either, or
/// is too deep to be read again in a document a few levels deeper.
[[nodiscard]] nlohmann::json storable(const nlohmann::json& value);
/// The value that was made storable(). DataError that begins with `what` if none was.
[[nodiscard]] nlohmann::json from_storable(const nlohmann::json& stored, std::string_view what);

/// Text from a file as a message can quote it: on one line, in quotes, and not long.
[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace mn
