#include <mn/loader/loader_defaults.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <mn/core/cpus.hpp>
#include <mn/core/error.hpp>
#include <mn/core/host_memory.hpp>
#include <mn/data/order.hpp>

namespace mn {

// One core is left to the training thread; each other core gets a worker.
int default_workers() {
  constexpr std::size_t kMaxWorkers = 16;
  return static_cast<int>(std::clamp<std::size_t>(cpu_count() - 1, 1, kMaxWorkers));
}

// Each worker needs two batches: one in work, and one that is ready in case a slow batch delays the next ones. Each of
// the kReadAhead further threads needs one, and one more batch is ready.
int default_prefetch(int workers) { return std::max(2 * workers, kReadAhead + 1); }

std::int64_t default_prefetch_bytes() { return std::min(std::int64_t{1} << 30, memory_of_rank() / 3); }

std::unique_ptr<Sampler> make_sampler(const SubDataset& dataset, const LoaderOptions& options) {
  SamplerOptions sampling{.batchsize = options.batchsize,
                          .rank = dataset.rank(),
                          .ranks = dataset.ranks(),
                          .seed = options.seed.value_or(dataset.options().seed),
                          .drop_last = options.drop_last,
                          .even_last = options.even_last,
                          .order = {}};
  const bool shuffle = options.shuffle.value_or(dataset.options().shuffle);
  if (options.by_part && shuffle) {
    throw UsageError("a loader reads either by part, which is for evaluation, or shuffled: set shuffle to false");
  }
  if (options.draws) {
    if (options.by_part || !dataset.shared()) {
      throw UsageError(
          "drawing by weight needs a dataset from which each rank can read each sample (shards, or a dataset that "
          "every rank has), and does not read by part");
    }
    return std::make_unique<DrawSampler>(dataset.global_size(), dataset.fingerprint(), *options.draws, sampling);
  }
  if (dataset.shared() && !options.by_part) {
    sampling.order = data::default_order(dataset.global_size(), dataset.shared()->layout(), shuffle, dataset.ranks());
    return std::make_unique<GlobalSampler>(dataset.global_size(), dataset.fingerprint(), sampling);
  }
  sampling.order.shuffle = shuffle;
  std::vector<std::int64_t> parts;
  for (int rank = 0; rank < dataset.ranks(); ++rank) parts.push_back(dataset.unique_size(rank));
  return std::make_unique<PartSampler>(std::move(parts), dataset.fingerprint(), sampling);
}

}  // namespace mn
