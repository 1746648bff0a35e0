// Decodes binary PPMs (P6, color) and PGMs (P5, gray) of 8 or 16 bits a value. Pixels equal Pillow's convert("RGB"): a
// value v becomes 255 v / m, where m is the file's largest possible value, rounded to the nearest whole number, halves
// to even. Only gray of more than 8 bits differs: Pillow clips at 255 and leaves most images white.
//
// Only the region's pixels are read.
// Source: Netpbm's ppm(5) and pgm(5); Pillow's PpmImagePlugin.py.
#include <mn/image/format_decoder.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr int kByteLevels = 255;
constexpr int kMaxLevels = 65535;

[[noreturn]] void damaged(const std::string& what) { throw DataError("damaged PPM or PGM: " + what); }

/// Reads a number and the blank after it. Skips comments, which go from # to the end of the line.
int next_number(std::string_view& rest) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  while (!rest.empty() && (rest.front() == '#' || kBlanks.find(rest.front()) != std::string_view::npos)) {
    rest.remove_prefix(rest.front() == '#' ? std::min(rest.find_first_of("\r\n"), rest.size()) : 1);
  }
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || number < 1) damaged("its header is not of the form \"P6 WIDTH HEIGHT LEVELS\"");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  if (rest.empty()) damaged("it ends too early");
  if (kBlanks.find(rest.front()) == std::string_view::npos) damaged("no blank follows a number of its header");
  rest.remove_prefix(1);
  return number;
}

class PnmDecoder final : public FormatDecoder {
 public:
  const ImageHeader& open(std::span<const std::byte> bytes) override {
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const bool is_gray = rest.starts_with("P5");
    rest.remove_prefix(2);
    const int width = next_number(rest), height = next_number(rest);
    levels_ = next_number(rest);
    if (levels_ > kMaxLevels) damaged("values of " + std::to_string(levels_) + " levels");
    header_ = {.format = ImageFormat::kPnm,
               .width = width,
               .height = height,
               .components = is_gray ? 1 : 3,
               .bits = levels_ > kByteLevels ? 16 : 8};
    values_ = rest;
    return header_;
  }

  Box decode(const Region& region, int, int, Image& out) override {
    const std::uint64_t pixel_bytes = std::uint64_t(header_.components) * (header_.bits / 8);
    if (pixel_bytes * header_.width * header_.height > values_.size()) damaged("it ends too early");
    out.resize(region.width, region.height);
    for (int y = 0; y < region.height; ++y) {
      const std::uint64_t pixel = std::uint64_t(region.y + y) * header_.width + region.x;
      const char* from = values_.data() + pixel_bytes * pixel;
      std::uint8_t* to = out.row(y);
      for (int x = 0; x < region.width; ++x, from += pixel_bytes, to += 3) {
        for (int c = 0; c < 3; ++c) to[c] = value_at(from, header_.components == 1 ? 0 : c);
      }
    }
    return {0, 0, double(region.width), double(region.height)};
  }

 private:
  [[nodiscard]] std::uint8_t value_at(const char* pixel, int component) const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(pixel);
    if (levels_ == kByteLevels) return bytes[component];
    const int value = header_.bits == 8 ? bytes[component] : bytes[2 * component] << 8 | bytes[2 * component + 1];
    return static_cast<std::uint8_t>(
        std::min<double>(std::nearbyint(double(value) / levels_ * kByteLevels), kByteLevels));
  }

  std::string_view values_;
  ImageHeader header_;
  int levels_ = kByteLevels;  // largest possible value of the file
};

}  // namespace

std::unique_ptr<FormatDecoder> make_pnm_decoder() { return std::make_unique<PnmDecoder>(); }

}  // namespace mn::data
