// write_shards DIR: 1,000 points on two circles, and each point's circle.
#include <cmath>
#include <span>

#include <mn/data/shard_writer.hpp>

int main(int, char** argv) {
  mn::ShardWriter writer(argv[1], mn::labeled({.dtype = mn::DType::kFloat32, .shape = {2}}));
  for (int i = 0; i < 1000; ++i) {
    const float radius = i % 2 == 0 ? 1.0F : 2.0F;
    const float point[] = {radius * std::cos(0.1F * i), radius * std::sin(0.1F * i)};
    writer.add(std::as_bytes(std::span(point)), i % 2);
  }
  writer.finish();
}
