// Samples that scatter_dataset sends from the root's memory.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/loader/scatter.hpp>

#include "tests/support/resident_bytes.hpp"

namespace mn {
namespace {

TEST(ScatterMemory, LargePartsTravelInPiecesAndAreHeldOnce) {
  const auto comm = create_communicator("naive");
  constexpr std::int64_t kSamples = 60;  // samples of 1.5 MB and more: 180 MB
  const auto length = [](std::int64_t s) { return 1'500'000 * (1 + s % 3) + s; };
  const auto value = [](std::int64_t s, std::int64_t i) { return static_cast<std::byte>(s * 7 + i / 1000); };
  std::shared_ptr<MemoryDataset> all;
  if (comm->rank() == 0) {
    const SampleSpec spec = labeled({.kind = FieldKind::kEncoded});
    RawSamples samples(spec);
    ByteBuffer image;
    for (std::int64_t s = 0; s < kSamples; ++s) {
      image.clear();
      for (std::int64_t i = 0; i < length(s); i += 1000) {
        image.insert(image.end(), std::min<std::int64_t>(1000, length(s) - i), value(s, i));
      }
      samples.add(spec, {image, std::span(&s, 1)});
    }
    all = std::make_shared<MemoryDataset>(spec, std::move(samples));
  }
  comm->barrier();
  const bool can_measure = test::reset_peak_bytes();
  const std::int64_t before = test::resident_bytes();
  const auto part = scatter_dataset(all, comm, {.shuffle = true});
  const std::int64_t more = test::peak_bytes() - before;

  std::int64_t bytes = 0;
  RawSamples out;
  for (std::int64_t k = 0; k < part->size(); ++k) {
    part->read(std::span(&k, 1), out);
    const std::int64_t s = out.columns[1].values<std::int64_t>()[0];
    ASSERT_EQ(static_cast<std::int64_t>(out.sample(0, 0).size()), length(s));
    bytes += length(s);
    for (std::int64_t i = 0; i < length(s); i += 499) EXPECT_EQ(out.sample(0, 0)[i], value(s, i));
    EXPECT_EQ(out.sample(0, 0).back(), value(s, length(s) - 1));
  }
  if (can_measure && comm->rank() != 0) {
    EXPECT_LE(more, bytes + bytes / 5 + (8 << 20)) << "a part of " << bytes << " bytes";
  }
}

}  // namespace
}  // namespace mn
