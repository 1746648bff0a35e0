// Headers of files that were made to crash their reader.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/safetensors_header.hpp>
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

TEST(DamagedFiles, MillionsOfBracketsAreAnErrorOfOneLine) {
  for (const std::string& header : {nested(1'000'000), std::string(10'000'000, '{'), deep_value()}) {
    EXPECT_THAT(safetensors_error(header), AllOf(StartsWith("FILE "), HasSubstr("within each other at byte ")));
  }
}

TEST(DamagedFiles, OtherTypesAreAnErrorOfOneLine) {
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
