/// JSON and CBOR (RFC 8949) that come from files and other processes, and may be damaged.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mn/core/error.hpp>

/// Instantiated once, in json.cpp, not in each source that uses JSON.
extern template class nlohmann::basic_json<>;

namespace mn {

/// Arrays and objects within each other that are accepted. nlohmann copies, compares and writes documents by recursion,
/// and reads CBOR so: a deep one overflows the stack.
constexpr int kMostJsonDepth = 64;

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
    throw DataError(std::string(what) + " has not the expected form: " + error.what());
  }
}

/// Text from a file as a message can quote it: on one line, in quotes, and not long.
[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace mn
