// Headers of files that were made to crash their reader.
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_file.hpp>
#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }
std::string deep_value() { return R"({"about": )" + nested(1'000'000) + "}"; }

std::string safetensors_error(const std::string& header, const std::string& data = "") {
  const std::uint64_t bytes = header.size();
  const std::string file = std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + header + data;
  return test::message_of<DataError>([&] { (void)parse_safetensors_header(file, "FILE"); });
}

/// The checksum is right: it protects from accidents alone.
std::string checkpoint_error(const std::string& index) {
  const test::TemporaryFolder folder;
  const std::uint64_t bytes = index.size();
  const std::uint32_t crc_and_zero[] = {crc32c(std::as_bytes(std::span(index))), 0};
  std::ofstream(folder.path() / "file", std::ios::binary)
      << "mn-ckpt2" << std::string_view(reinterpret_cast<const char*>(&bytes), sizeof bytes)
      << std::string_view(reinterpret_cast<const char*>(crc_and_zero), sizeof crc_and_zero) << index;
  return test::message_of<DataError>([&] { CheckpointFile(folder.path() / "file").check(); });
}

TEST(DamagedFiles, MillionsOfBracketsAreAnErrorOfOneLine) {
  for (const std::string& header : {nested(1'000'000), std::string(10'000'000, '{'), deep_value()}) {
    EXPECT_THAT(safetensors_error(header), AllOf(StartsWith("FILE "), HasSubstr("within each other at byte ")));
    EXPECT_THAT(checkpoint_error(header),
                AllOf(StartsWith("the index of the checkpoint /"), HasSubstr("/file is damaged"),
                      HasSubstr("within each other at byte ")));
  }
}

TEST(DamagedFiles, OtherTypesAreAnErrorOfOneLine) {
  for (const char* index : {"[]", "3", "{}", R"({"about": {}, "sections": 7})", R"({"about": {}, "sections": [1, 2]})",
                            R"({"about": {}, "sections": [{"name": "model", "bytes": "x"}, {}]})",
                            R"({"about": {}, "sections": {"a": {}, "b": {}, "c": {}}})"}) {
    EXPECT_THAT(checkpoint_error(index), AllOf(HasSubstr("checkpoint"), Not(HasSubstr("\n")))) << index;
  }
  for (const char* offsets : {"[0, 4.0]", "[-0.5, 4]", "[0, 9e35]", "[-4, 0]"}) {
    EXPECT_THAT(
        safetensors_error(R"({"t": {"dtype": "F32", "shape": [1], "data_offsets": )" + std::string(offsets) + "}}"),
        AllOf(StartsWith("FILE has a malformed entry for tensor \"t\""), Not(HasSubstr("\n"))))
        << offsets;
  }
  EXPECT_THAT(safetensors_error(R"({"a\nb": {"dtype": 7, "shape": [], "data_offsets": [0, 0]}})"),
              AllOf(StartsWith("FILE has a malformed entry for tensor \"a\\nb\""), Not(HasSubstr("\n"))));
}

TEST(DamagedFiles, ExtentsThatOverflowAreAnErrorAlsoWithoutElements) {
  for (const char* shape : {"[0, 4611686018427387904, 4]", "[4611686018427387904, 4, 0]"}) {
    EXPECT_THAT(
        safetensors_error(std::string(R"({"t": {"dtype": "F32", "data_offsets": [0, 0], "shape": )") + shape + "}}"),
        EndsWith("an impossible shape"));
  }
}

}  // namespace
}  // namespace mn
