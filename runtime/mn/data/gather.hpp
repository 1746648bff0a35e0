/// Samples of memory, put together for a read.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include <mn/data/raw_samples.hpp>

namespace mn::data {

/// Sample k of `out` is locate(k): pointer to some samples, and the number there.
template <class Locate>
void gather(const SampleSpec& spec, std::int64_t n, const Locate& locate, RawSamples& out) {
  out.reset(spec, n);
  for (std::size_t f = 0; f < out.columns.size(); ++f) {
    RawColumn& column = out.columns[f];
    const auto source = [&](std::int64_t k) {
      const std::pair<const RawSamples*, std::int64_t> at = locate(k);
      return at.first->columns[f].sample(at.second);
    };
    const bool varies = !column.offsets.empty();
    for (std::int64_t k = 0; varies && k < n; ++k) {
      column.offsets.push_back(column.offsets.back() + static_cast<std::int64_t>(source(k).size()));
    }
    if (varies) column.bytes.resize(column.offsets.back());
    for (std::int64_t k = 0; k < n; ++k) {
      const auto from = source(k);
      std::byte* to = column.bytes.data() + (varies ? column.offsets[k] : k * column.sample_bytes);
      if (!from.empty()) std::memcpy(to, from.data(), from.size());
    }
  }
}

}  // namespace mn::data
