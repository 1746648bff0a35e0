/// ChainerMN's mean image: a NumPy file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mn::jobs {

struct MeanImage {
  int side = 0;
  std::vector<float> values;  ///< (3, side, side), 0 … 255
};

/// Parses a .npy file of float32 (3, side, side). Throws DataError that begins with `source`; every rank parses the
/// same bytes.
[[nodiscard]] MeanImage parse_mean_image(std::string_view bytes, const std::string& source);

}  // namespace mn::jobs
