#include "facts/fatbin.hpp"

#include <algorithm>

#include <mn/core/json.hpp>

#include "facts/elf.hpp"

namespace mn::launcher {
namespace {

// Layout of the section .nv_fatbin, by nvcc's fatbinary: containers with a header and entries.
struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  ///< size of the entries
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t unused[2];
  std::uint16_t minor, major;
  std::uint32_t capability;
};
constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kBinary = 2;
constexpr int kMaxContainers = 64;
constexpr int kMaxEntries = 1024;  // per container: one for each target of each source

}  // namespace

GpuCode read_gpu_code(const std::filesystem::path& file) {
  GpuCode code;
  const auto section = open_section(file, ".nv_fatbin");
  if (!section) return code;
  std::uint64_t at = 0;
  for (int i = 0; i < kMaxContainers; ++i) {
    const auto container = section->read<Container>(at);
    if (!container || container->magic != kFatbinMagic) break;
    const std::uint64_t first = at + container->header_bytes;
    if (container->header_bytes < sizeof(Container) || container->bytes > section->bytes()) break;
    const std::uint64_t end = first + container->bytes;
    at = first;
    for (int k = 0; k < kMaxEntries && at < end; ++k) {
      const auto entry = section->read<Entry>(at);
      if (!entry || entry->bytes == 0 || entry->bytes > end - at) break;
      if (entry->kind == kPtx) code.ptx.insert(static_cast<int>(entry->capability));
      if (entry->kind == kBinary) code.binary.insert(static_cast<int>(entry->capability));
      at += entry->header_bytes + entry->bytes;
    }
    at = (end + 7) / 8 * 8;
  }
  return code;
}

bool runs_on(const GpuCode& code, int capability) {
  return std::ranges::any_of(code.ptx, [&](int target) { return target <= capability; }) ||
         std::ranges::any_of(code.binary,
                             [&](int target) { return target <= capability && target / 10 == capability / 10; });
}

void to_json(nlohmann::json& json, const GpuCode& code) { json = {{"binary", code.binary}, {"ptx", code.ptx}}; }

void from_json(const nlohmann::json& json, GpuCode& code) {
  json.at("binary").get_to(code.binary);
  json.at("ptx").get_to(code.ptx);
}

}  // namespace mn::launcher
