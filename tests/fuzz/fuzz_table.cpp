// A shard table of any bytes, as it comes over the wire.
#include <cstdint>
#include <string>

#include <mn/core/error.hpp>
#include <mn/data/manifest.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto table = mn::data::ShardTable::parse(std::string(reinterpret_cast<const char*>(data), size));
    if (table.num_samples() > 0) (void)table.locate(table.num_samples() - 1);
    if (mn::data::ShardTable::parse(table.serialize()).hash() != table.hash()) __builtin_trap();
  } catch (const mn::DataError&) {
  }
  return 0;
}
