#include <mn/core/json.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <span>

#include <boost/locale/utf.hpp>

#include <mn/core/text.hpp>

template class nlohmann::basic_json<>;

namespace mn {
namespace {

using nlohmann::json;

[[noreturn]] void fail(std::string_view what, const std::string& how, std::size_t offset) {
  throw DataError(std::string(what) + " is damaged: " + how + " at byte " + std::to_string(offset));
}

[[noreturn]] void fail_too_deep(std::string_view what, std::size_t offset) {
  fail(what, "more than " + std::to_string(kMaxJsonDepth) + " arrays and objects within each other", offset);
}

/// Throws DataError if brackets outside of strings nest too deep. The parser checks later whether `text` is JSON.
void check_json_depth(std::string_view text, std::string_view what) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) fail_too_deep(what, i);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

/// Checks the depth of CBOR without recursion. nlohmann's reader recurses for each array and object, and for each piece
/// of a text of indefinite length (0x7f). For such a piece the reader calls no callback that could limit the depth.
class CborWalk {
 public:
  CborWalk(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  void check() {
    std::array<std::uint64_t, kMaxJsonDepth> left{};  // number of items still missing in each open array or object
    do {
      if (const std::uint64_t items = take_item(); items > 0) {
        assert(depth_ < kMaxJsonDepth);
        left[depth_++] = items;
      } else {
        while (depth_ > 0 && --left[depth_ - 1] == 0) --depth_;
      }
    } while (depth_ > 0);
    if (at_ != bytes_.size()) fail(what_, "something follows the CBOR document", at_);
  }

 private:
  enum Major : unsigned { kBytes = 2, kText = 3, kArray = 4, kObject = 5, kTag = 6 };

  /// Moves `at_` past the next item's head, and past its bytes or text. Returns the number of items within this item.
  std::uint64_t take_item() {
    const std::size_t begin = at_;
    const auto first = static_cast<unsigned>(take_number(1));
    const unsigned major = first >> 5, info = first & 31;
    constexpr unsigned kInOneByte = 24, kInEightBytes = 27;  // `info` is the number, or the code of the number's size
    if (info > kInEightBytes || major == kTag) fail(what_, "CBOR of an unknown kind", begin);
    const std::uint64_t number = info < kInOneByte ? info : take_number(std::size_t{1} << (info - kInOneByte));
    if (major < kBytes || major > kObject) return 0;
    if (number > bytes_.size() - at_) fail(what_, "CBOR longer than the document", begin);
    if (major == kBytes || major == kText) {
      at_ += number;
      return 0;
    }
    if (depth_ == kMaxJsonDepth) fail_too_deep(what_, begin);
    return major == kArray ? number : 2 * number;
  }

  std::uint64_t take_number(std::size_t bytes) {
    if (bytes > bytes_.size() - at_) fail(what_, "its CBOR is cut off", bytes_.size());
    std::uint64_t number = 0;
    for (; bytes > 0; --bytes) number = number << 8 | static_cast<unsigned char>(bytes_[at_++]);
    return number;
  }

  std::string_view bytes_;
  std::string_view what_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

constexpr const char* kCborKey = "$cbor";
constexpr int kMaxStorableDepth = kMaxJsonDepth - 8;

bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(json(text).dump());
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

/// True if JSON text can express `value`. The elements of an array or object are not checked.
bool has_text(const json& value) {
  if (value.is_number_float()) return std::isfinite(value.get_ref<const double&>());
  if (value.is_string()) return is_utf8(value.get_ref<const std::string&>());
  if (!value.is_object()) return !value.is_binary();
  if (value.size() == 1 && value.contains(kCborKey)) return false;  // from_storable() would read the object as CBOR
  return std::ranges::all_of(value.items(), [](const auto& item) { return is_utf8(item.key()); });
}

/// Throws DataError if `value`, or a value inside of it, has no CBOR form or nests too deep.
void check_storable(const json& value, int depth) {
  const bool has_cbor = !value.is_discarded() && !(value.is_binary() && value.get_binary().has_subtype());
  if (!has_cbor) throw DataError("holds a value that neither JSON nor CBOR can hold");
  if (!value.is_structured()) return;
  if (depth == kMaxStorableDepth) {
    throw DataError("holds more than " + std::to_string(depth) + " arrays and objects within each other");
  }
  for (const json& each : value) check_storable(each, depth + 1);
}

json without_cbor(const json& value) {
  if (!has_text(value)) {
    const std::vector<std::uint8_t> bytes = json::to_cbor(value);
    return {{kCborKey, to_hex(std::as_bytes(std::span(bytes)))}};
  }
  if (!value.is_structured()) return value;
  json result = value;
  for (json& each : result) each = without_cbor(each);
  return result;
}

/// Replaces nlohmann's error message, because that message quotes the input.
template <class Parse>
json parse(std::string_view what, const char* format, Parse parse) {
  try {
    return parse();
  } catch (const json::parse_error& error) {
    fail(what, std::string("no ") + format, error.byte > 0 ? error.byte - 1 : 0);  // nlohmann counts bytes from 1
  } catch (const json::exception&) {
    throw DataError(std::string(what) + " is damaged: its " + format + " has a number that is too large");
  }
}

}  // namespace

json parse_json(std::string_view text, std::string_view what) {
  check_json_depth(text, what);
  return parse(what, "JSON", [&] { return json::parse(text); });
}

json parse_cbor(std::string_view bytes, std::string_view what) {
  CborWalk(bytes, what).check();
  return parse(what, "CBOR", [&] { return json::from_cbor(bytes); });
}

std::string reason_of(const json::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::string json_text(const json& document, int indent) {
  return document.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string utf8_text(std::string_view text) {
  namespace utf = boost::locale::utf;
  std::string valid;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* next = at;
    const utf::code_point character = utf::utf_traits<char>::decode(next, end);
    if (character != utf::illegal && character != utf::incomplete) {
      valid.append(at, next);
      at = next;
      continue;
    }
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(*at++);
    valid.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
  return valid;
}

json storable(const json& value) {
  check_storable(value, 0);
  return without_cbor(value);
}

json from_storable(const json& stored, std::string_view what) {
  if (!stored.is_structured()) return stored;
  if (stored.is_object() && stored.size() == 1 && stored.contains(kCborKey)) {
    const auto hex = read_json(what, [&] { return stored.at(kCborKey).get<std::string>(); });
    return parse_cbor(from_hex(hex), what);
  }
  json value = stored;
  for (json& each : value) each = from_storable(each, what);
  return value;
}

std::int64_t count_of(const json& value) {
  const auto count = whole_number<std::int64_t>(value);
  if (count < 0) throw json::type_error::create(302, std::to_string(count) + " is below 0", &value);
  return count;
}

std::string json_quoted(std::string_view text) {
  constexpr std::size_t kMaxQuoted = 200;
  return json_text(text.substr(0, kMaxQuoted)) + (text.size() > kMaxQuoted ? "..." : "");
}

}  // namespace mn
