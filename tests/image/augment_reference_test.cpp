// The same parameters give torchvision's results, which tests/support/augment_references has written.
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/file.hpp>
#include <mn/image/resize.hpp>

#include "tests/image/augment_cases.hpp"

namespace mn::data {
namespace {

// As in tests/image/CMakeLists.txt.
constexpr int kWidth = 19;
constexpr int kHeight = 13;
constexpr int kOfEach = 2;
constexpr int kChains = 3;

/// The lines of the file with the names of cases, and the images after the lines.
class References {
 public:
  References() : bytes_(read_file(MN_AUGMENT_REFERENCES)), at_(bytes_.find("\n\n") + 2) {
    std::istringstream lines(bytes_.substr(0, at_ - 1));
    for (std::string line; std::getline(lines, line);) lines_.push_back(line);
  }
  [[nodiscard]] std::string next_line() { return line_ < lines_.size() ? lines_[line_++] : "no further case"; }
  [[nodiscard]] std::string next_image(const Image& like) {
    at_ += like.pixels.size();
    return bytes_.substr(at_ - like.pixels.size(), like.pixels.size());
  }
  [[nodiscard]] std::vector<float> next_floats(std::size_t count) {
    std::vector<float> floats(count);
    if (at_ + 4 * count <= bytes_.size()) std::memcpy(floats.data(), bytes_.data() + at_, 4 * count);
    at_ += 4 * count;
    return floats;
  }
  [[nodiscard]] bool at_end() const { return line_ == lines_.size() && at_ == bytes_.size(); }

 private:
  std::string bytes_;
  std::vector<std::string> lines_;
  std::size_t line_ = 0;
  std::size_t at_;
};

int largest_difference(const Image& image, const std::string& expected) {
  int most = expected.size() == image.pixels.size() ? 0 : 256;
  for (std::size_t i = 0; i < expected.size() && most < 256; ++i) {
    most = std::max(most, std::abs(image.pixels[i] - static_cast<std::uint8_t>(expected[i])));
  }
  return most;
}

/// Sums in float32 that torchvision may fuse: a whole number, but for rounding, is cut to one or the other.
int tolerance(OperationKind kind) {
  switch (kind) {
    case OperationKind::kIdentity:
    case OperationKind::kTranslateX:
    case OperationKind::kTranslateY:
    case OperationKind::kPosterize:
    case OperationKind::kSolarize:
    case OperationKind::kAutoContrast:
    case OperationKind::kEqualize:
      return 0;
    default:
      return 1;
  }
}

TEST(AugmentReference, SameParametersGiveTorchvisionsResults) {
  References references;
  ImageOperator apply;
  for (const AugmentCase& one : augment_cases(kWidth, kHeight, kOfEach, kChains)) {
    const std::string line = references.next_line();
    std::istringstream words(line);
    std::string what, name;
    double amount = 0;
    words >> what >> name >> amount;
    EXPECT_EQ(name, name_of(one.operation.kind)) << "what a seed draws has changed";
    EXPECT_DOUBLE_EQ(amount, one.operation.amount) << line;
    Image out = one.in;
    apply.apply({one.operation.kind, amount}, out);
    EXPECT_LE(largest_difference(out, references.next_image(out)), tolerance(one.operation.kind)) << line;
  }
  Resizer resizer;
  for (const ResizeCase& one : resize_cases(kWidth, kHeight, 4 * kOfEach)) {
    const std::string line = references.next_line();
    Image out;
    resizer.resize(one.in, to_box(one.part), one.part, one.width, one.height, false, out, one.filter);
    EXPECT_LE(largest_difference(out, references.next_image(out)), 1) << line;
  }
  for (const FloatCase& one : float_cases(kWidth, 3 * kOfEach)) {
    const std::string line = references.next_line();
    const std::vector<float> out = one.result();
    EXPECT_EQ(out, references.next_floats(out.size())) << line;
  }
  EXPECT_TRUE(references.at_end());
}

}  // namespace
}  // namespace mn::data
