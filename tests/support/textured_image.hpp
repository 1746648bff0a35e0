/// Images made by rule, in classes that a network can learn.
#pragma once

#include <cstdint>

#include <mn/image/image.hpp>

namespace mn::test {

/// Which image of which class: equal keys give equal images.
struct ImageKey {
  int label = 0;
  std::uint64_t seed = 0;
  std::int64_t index = 0;
};

/// One striped shape in front of clouds, with grain over all of it, as photos have.
///
/// (1) The label decides outline, hue, and direction and number of the stripes, each with some jitter; with more than a
///     few classes no one of these is enough to name the class.
/// (2) Position, size, brightness and the background's two colors are random, whatever the class.
/// (3) The grain makes a JPEG of quality 90 about as large as a photo's: 110 kB at 500 × 375.
[[nodiscard]] data::Image draw_textured_image(const ImageKey& key, int width, int height);

}  // namespace mn::test
