/// Divides a dataset between ranks: ChainerMN's scatter_dataset, but data that every rank can read is not sent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <mn/comm/communicator.hpp>
#include <mn/data/sub_dataset.hpp>

namespace mn {

/// scatter_index() for a communicator's rank.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> scatter_index(std::int64_t n, const Communicator& comm,
                                                                  bool force_equal_length = true);

/// Opens, on another rank, the dataset of a table().
using TableOpener = std::function<std::shared_ptr<Dataset>(const std::string& table)>;
/// By Dataset::format(). The name "shards" is taken.
using TableOpeners = std::map<std::string, TableOpener>;

/// Collective over `comm`. Only the root's `dataset` counts; elsewhere it may be null. Throws UsageError on every rank
/// if `options`, except `stage`, differ between ranks.
/// Shards: the root reads the manifest and the shards' headers and broadcasts the shard table; the ranks compare its
/// hash; each rank later reads the samples that it uses. A program's own class with do_table() and do_format() works
/// alike, through the opener of its format, which every rank gives (the root does not call its opener). Other datasets:
/// the root sends each rank its part, in pieces, and the rank keeps it in memory, once. Every rank throws the root's
/// error (no such folder, a damaged or changed shard, no memory, any error of the dataset), or the error of the first
/// rank with a failed opener: DataError with on_all_ranks(). Fewer samples than ranks are no error here, as in
/// ChainerMN; a DataLoader needs a sample for each rank.
[[nodiscard]] std::shared_ptr<SubDataset> scatter_dataset(std::shared_ptr<Dataset> dataset,
                                                          const std::shared_ptr<Communicator>& comm,
                                                          const ScatterOptions& options = {},
                                                          const TableOpeners& openers = {});

/// Collective over `comm`. Divides a dataset that every rank has, for example of make_dataset() or in memory: nothing
/// is sent, and each rank reads the samples that it uses. As with shards, a loader's steps have equal samples for any
/// number of ranks (with equal batchsize × ranks), and resume with any number. Ignores `options.root`. Throws an equal
/// ArgumentError on every rank if the datasets' fingerprints differ, or a dataset is null.
[[nodiscard]] std::shared_ptr<SubDataset> share_dataset(std::shared_ptr<const Dataset> dataset,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        const ScatterOptions& options = {});

}  // namespace mn
