#include "rounds/round_messages.hpp"

#include <mn/core/json.hpp>

#include "facts/json_fields.hpp"

namespace mn::launcher {
template <typename Message>
std::string to_message(const Message& message) {
  std::string bytes;
  nlohmann::json::to_cbor(json_fields::write(message), bytes);
  return bytes;
}

template <typename Message>
Message from_message(std::string_view bytes, const std::string& what) {
  Message message;
  try {
    // parse_cbor() bounds the depth: the bytes come from another process.
    json_fields::read(parse_cbor(bytes, what), "", message);
  } catch (const DataError& error) {
    throw DataError(what + ": " + error.what());
  }
  return message;
}

// Messages; the structs above without an instance are fields of messages.
template std::string to_message(const Decision&);
template std::string to_message(const Arrival&);
template std::string to_message(const NodeArrival&);
template std::string to_message(const ArrivalAnswer&);
template std::string to_message(const ArrivalShare&);
template std::string to_message(const RankReport&);
template std::string to_message(const NodeReport&);
template std::string to_message(const VerdictShare&);
template std::string to_message(const Readiness&);

template Decision from_message(std::string_view, const std::string&);
template Arrival from_message(std::string_view, const std::string&);
template NodeArrival from_message(std::string_view, const std::string&);
template ArrivalAnswer from_message(std::string_view, const std::string&);
template ArrivalShare from_message(std::string_view, const std::string&);
template RankReport from_message(std::string_view, const std::string&);
template NodeReport from_message(std::string_view, const std::string&);
template VerdictShare from_message(std::string_view, const std::string&);
template Readiness from_message(std::string_view, const std::string&);

}  // namespace mn::launcher
