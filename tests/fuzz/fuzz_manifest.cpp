// A checkpoint's manifest of any bytes: it is read whole, or DataError says why not.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include <mn/checkpoint/format/checkpoint_manifest.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace {

/// Any bytes with the right checksum around them, so that what lies behind it is reached.
std::string framed(std::string_view body) {
  char crc[9];
  std::snprintf(crc, sizeof crc, "%08x", mn::crc32c(std::as_bytes(std::span(body))));
  return std::string(R"({"crc32c":")") + crc + R"(","manifest":)" + std::string(body) + "}\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const mn::Manifest manifest = mn::parse_manifest(size % 2 == 0 ? framed(bytes) : std::string(bytes), "FILE");
    for (std::size_t shard = 0; shard < manifest.shards.size(); ++shard) (void)mn::shard_header(manifest, shard);
  } catch (const mn::DataError&) {
  }
  return 0;
}
