/// Dividing a dataset between ranks: ChainerMN's scatter_dataset, without sending what a rank can read by itself.
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

/// Opens on another rank what a dataset's table() describes.
using TableOpener = std::function<std::shared_ptr<Dataset>(const std::string& table)>;
/// By Dataset::format(). The name "shards" is taken.
using TableOpeners = std::map<std::string, TableOpener>;

/// Collective over `comm`. Only root's `dataset` counts; elsewhere it may be null. `options` are the same on every rank
/// but for `stage`; UsageError on every rank otherwise.
/// Shards: root reads the manifest and the shards' headers and broadcasts the shard table; the ranks compare a
/// hash of it; samples are read later, by the rank that uses them. A class of one's own with do_table() and
/// do_format(): likewise, by the opener of that name, which every rank gives (the root's is not called). Other
/// datasets: root sends each rank its part, in pieces, and that rank holds it in memory, once. Every rank throws the
/// root's error (no such folder, a damaged or changed shard, no memory, whatever the dataset throws), or that of the
/// first rank whose opener throws: DataError with on_all_ranks(). Fewer samples than ranks are not an error here, as in
/// ChainerMN; a DataLoader needs one for each rank.
[[nodiscard]] std::shared_ptr<SubDataset> scatter_dataset(std::shared_ptr<Dataset> dataset,
                                                          const std::shared_ptr<Communicator>& comm,
                                                          const ScatterOptions& options = {},
                                                          const TableOpeners& openers = {});

/// Collective over `comm`. For a dataset that every rank has, such as make_dataset()'s or one in memory: nothing is
/// sent, and each rank reads the samples that it uses. As with shards, a loader's steps hold the same samples for any
/// number of ranks (where batchsize × ranks is the same), and resume with any. `options.root` is not used. Throws the
/// same ArgumentError on every rank if the ranks' datasets differ in their fingerprints, or one is null.
[[nodiscard]] std::shared_ptr<SubDataset> share_dataset(std::shared_ptr<const Dataset> dataset,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        const ScatterOptions& options = {});

}  // namespace mn
