#include "imagenet/mean_image.hpp"

#include <cstring>
#include <regex>

#include <mn/core/error.hpp>

namespace mn::jobs {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPreamble = 10;  // magic, version, u16 bytes of the header (version 1)

std::size_t header_bytes(std::string_view bytes) {
  return static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
}

}  // namespace

MeanImage parse_mean_image(std::string_view bytes, const std::string& source) {
  const auto fail = [&](const std::string& how) { throw DataError(source + " " + how, true); };
  if (bytes.size() < kPreamble || !bytes.starts_with(kMagic) || bytes[6] != 1) fail("is not a NumPy file (.npy)");
  const std::size_t first = kPreamble + header_bytes(bytes);
  if (first > bytes.size()) fail("is cut off");
  const std::string header(bytes.substr(kPreamble, first - kPreamble));
  static const std::regex kShape(R"('shape': \(3, ([0-9]{1,5}), ([0-9]{1,5})\))");
  std::smatch shape;
  if (header.find("'descr': '<f4'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos || !std::regex_search(header, shape, kShape) ||
      shape[1] != shape[2]) {
    fail("is not a mean image: float32 of the shape (3, H, H) is wanted, it has " +
         header.substr(0, header.find('\n')));
  }
  MeanImage image;
  image.side = std::stoi(shape[1]);
  const std::size_t count = std::size_t{3} * image.side * image.side;
  const std::size_t size = count * sizeof(float);
  if (bytes.size() - first != size)
    fail("has " + std::to_string(bytes.size() - first) + " bytes of values instead of " + std::to_string(size));
  image.values.resize(count);
  std::memcpy(image.values.data(), bytes.data() + first, size);
  return image;
}

}  // namespace mn::jobs
