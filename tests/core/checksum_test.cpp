#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  // RFC 3720, appendix B.4: 32 bytes of zeros, of ones, and counting up.
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43U);
  std::vector<std::byte> counting(32);
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(counting), 0x46DD794EU);
}

TEST(Crc32c, GoesOnFromAnEarlierResult) {
  EXPECT_EQ(crc32c(bytes_of("6789"), crc32c(bytes_of("12345"))), crc32c(bytes_of("123456789")));
}

TEST(Crc32Gzip, KnownValues) {
  EXPECT_EQ(crc32_gzip({}), 0U);
  EXPECT_EQ(crc32_gzip(bytes_of("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32_gzip(bytes_of("6789"), crc32_gzip(bytes_of("12345"))), 0xCBF43926U);
}

TEST(Hash64, DiffersBySeedAndContent) {
  EXPECT_EQ(hash64("abc"), hash64(bytes_of("abc")));
  EXPECT_NE(hash64("abc"), hash64("abd"));
  EXPECT_NE(hash64("abc"), hash64("abc", 1));
}

TEST(Hash64, OfAFileIsThatOfItsBytes) {
  const auto path = std::filesystem::temp_directory_path() / ("mn_checksum_test_" + std::to_string(getpid()));
  const std::string content((3 << 20) + 7, 'x');  // several pieces
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(hash64_file(path), hash64(content));
  std::filesystem::remove(path);
  EXPECT_THROW(static_cast<void>(hash64_file(path)), DataError);
}

}  // namespace
}  // namespace mn
