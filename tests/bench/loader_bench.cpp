// loader_bench DIR THREADS SECONDS: the whole input path, from shards of JPEGs to normalized batches of 32 random
// resized crops of 224 × 224, with so many worker threads. Prints images per second.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/loader/image_transform.hpp>
#include <mn/loader/loader.hpp>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: loader_bench DIR THREADS SECONDS\n");
    return 2;
  }
  const int threads = std::atoi(argv[2]);
  const double seconds = std::atof(argv[3]);
  try {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begin) {
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    mn::DataLoader loader(mn::open_dataset(argv[1]),
                          {.batchsize = 32,
                           .shuffle = true,
                           .drop_last = true,
                           .workers = threads,
                           .prefetch = 2 * threads,
                           .transform = mn::image_transform({}, {}, mn::data::PixelLayout::kNhwc)});
    while (loader.next()) {  // an epoch to warm up
    }
    std::int64_t images = 0;
    const auto begin = Clock::now();
    while (since(begin) < seconds) {
      while (const auto batch = loader.next()) images += batch->samples;
    }
    std::printf("%.1f\n", static_cast<double>(images) / since(begin));
    return 0;
  } catch (const mn::Error& error) {
    std::fprintf(stderr, "loader_bench: %s\n", error.what());
    return 1;
  }
}
