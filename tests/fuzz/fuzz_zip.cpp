// A ZIP file of any bytes: members of what opens can be unpacked, or DataError says why not.
#include <cstdint>
#include <span>

#include <mn/core/error.hpp>

#include "data/npy.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static mn::fuzz::InputFile file("zip");
  static const mn::fuzz::InputFile unpacked("unpacked");
  if (!file.replace(std::as_bytes(std::span(data, size)))) return 0;
  try {
    const mn::File archive(file.path(), mn::File::Mode::kRead);
    for (const mn::ZipMember& member : mn::read_zip_directory(archive, "fuzzer")) {
      if (member.method == mn::ZipMember::Method::kDeflated) mn::data::unzip(archive, member, unpacked.path());
    }
  } catch (const mn::DataError&) {
  }
  return 0;
}
