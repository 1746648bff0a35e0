/// The gradients of ResNet-50 in the order in which backward makes them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mn::scaling {

/// One parameter tensor: its elements, and the share of backward's time that ends with its gradient.
struct Gradient {
  std::size_t count;
  double share;
};

/// K. He et al., "Deep Residual Learning for Image Recognition", 2015, with the stride in the 3 × 3 convolutions; 1,000
/// classes, images of 224 × 224. 161 tensors, 25,557,032 elements. Time is shared by multiplications.
inline std::vector<Gradient> resnet50_backward() {
  std::vector<Gradient> gradients;
  const auto convolution = [&](std::size_t kernel, std::size_t in, std::size_t out, std::size_t side) {
    const std::size_t weights = kernel * kernel * in * out;
    gradients.push_back({weights, static_cast<double>(weights * side * side)});
    gradients.push_back({out, 0});  // batch normalization: weight and bias
    gradients.push_back({out, 0});
  };
  convolution(7, 3, 64, 112);
  std::size_t in = 64;
  std::size_t side = 56;
  std::size_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      const std::size_t out_side = block == 0 && width > 64 ? side / 2 : side;
      convolution(1, in, width, side);
      convolution(3, width, width, out_side);
      convolution(1, width, 4 * width, out_side);
      if (block == 0) convolution(1, in, 4 * width, out_side);
      in = 4 * width;
      side = out_side;
    }
    width *= 2;
  }
  gradients.push_back({in * 1000, static_cast<double>(in * 1000)});
  gradients.push_back({1000, 0});
  double total = 0;
  for (const Gradient& each : gradients) total += each.share;
  for (Gradient& each : gradients) each.share /= total;
  std::reverse(gradients.begin(), gradients.end());
  return gradients;
}

}  // namespace mn::scaling
