// JSON and CBOR of any bytes: a document can be copied, written and read again, or DataError says why there is none.
#include <cstdint>
#include <string>

#include <mn/core/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto parse : {mn::parse_json, mn::parse_cbor}) {
    try {
      const nlohmann::json document = parse(bytes, "input");
      std::string again;
      nlohmann::json::to_cbor(document, again);
      std::string twice;
      nlohmann::json::to_cbor(mn::parse_cbor(again, "its copy"), twice);
      if (again != twice) __builtin_trap();
      (void)mn::json_quoted(bytes);
    } catch (const mn::DataError& error) {
      const std::string_view what = error.what();
      if (what.find('\n') != what.npos || what.starts_with("its copy")) __builtin_trap();
    }
  }
  return 0;
}
