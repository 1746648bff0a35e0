#include <mn/image/orientation.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace mn::data {

Orientation orientation_of(int value) noexcept {
  constexpr std::array<Orientation, 8> kOrientations = {{{false, false, false},
                                                         {false, true, false},
                                                         {false, true, true},
                                                         {false, false, true},
                                                         {true, false, false},
                                                         {true, false, true},
                                                         {true, true, true},
                                                         {true, true, false}}};
  return kOrientations[value - 1];
}

Region stored_region(Region region, const Orientation& how, int width, int height) {
  if (how.transposed) {
    std::swap(region.x, region.y);
    std::swap(region.width, region.height);
  }
  if (how.mirrored_x) region.x = width - region.x - region.width;
  if (how.mirrored_y) region.y = height - region.y - region.height;
  return region;
}

Box upright_box(Box box, const Orientation& how, int width, int height) {
  if (how.mirrored_x) box.x = width - box.x - box.width;
  if (how.mirrored_y) box.y = height - box.y - box.height;
  if (how.transposed) {
    std::swap(box.x, box.y);
    std::swap(box.width, box.height);
  }
  return box;
}

void make_upright(const Image& stored, const Orientation& how, Image& out) {
  out.resize(how.transposed ? stored.height : stored.width, how.transposed ? stored.width : stored.height);
  for (int y = 0; y < out.height; ++y) {
    std::uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3) {
      const int column = how.transposed ? y : x;
      const int line = how.transposed ? x : y;
      const int from_x = how.mirrored_x ? stored.width - 1 - column : column;
      const int from_y = how.mirrored_y ? stored.height - 1 - line : line;
      std::copy_n(stored.row(from_y) + std::ptrdiff_t{3} * from_x, 3, to);
    }
  }
}

}  // namespace mn::data
