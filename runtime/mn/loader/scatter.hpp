/// Divides a dataset between ranks, as ChainerMN's scatter_dataset does, but sends no data that every rank can read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <mn/comm/communicator.hpp>
#include <mn/data/scattered_dataset.hpp>

namespace mn {

/// The range of n samples that is this rank's part, as scatter_index() in scattered_dataset.hpp. Sends no message.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> scatter_index(std::int64_t n, const Communicator& comm,
                                                                  bool force_equal_length = true);

/// A program's function that opens a dataset from the root's Dataset::table(). All ranks but the root call it.
using TableOpener = std::function<std::shared_ptr<Dataset>(const std::string& table)>;
/// Openers by Dataset::format(). The format "shards" needs none.
using TableOpeners = std::map<std::string, TableOpener>;

/// Divides the root's dataset between the ranks of `comm`. Collective over `comm`; blocks. Only the root's `dataset` is
/// used; other ranks may pass null.
///
/// If the dataset is made of shards, the root broadcasts the shard table, the ranks compare its hash, and each rank
/// later reads the samples that it uses. If the dataset is a program's own class with do_table() and do_format(), the
/// same happens: every rank must pass an opener for this format, and all ranks but the root call the opener. For other
/// datasets the root sends each rank its part, in pieces, and the rank keeps the part in memory.
///
/// If the root has an error (no such folder, a damaged or changed shard, no memory, …), every rank throws it. If
/// openers fail, every rank throws the error of the lowest rank whose opener failed. These errors are UsageErrors, or
/// DataErrors with on_all_ranks() true. If `options`, except `stage`, differ between ranks, every rank throws
/// UsageError. As in ChainerMN, scatter_dataset() accepts fewer samples than ranks; a DataLoader does not.
[[nodiscard]] std::shared_ptr<SubDataset> scatter_dataset(std::shared_ptr<Dataset> dataset,
                                                          const std::shared_ptr<Communicator>& comm,
                                                          const ScatterOptions& options = {},
                                                          const TableOpeners& openers = {});

/// Divides a dataset that every rank has, for example in memory or from make_dataset(). Collective over `comm`; blocks.
/// No sample is sent: each rank reads the samples that it uses. As with shards, a loader's steps have the same samples
/// for any number of ranks as long as batchsize × ranks stays the same, and a job can resume with any number of ranks.
/// Ignores `options.root`. If the datasets' fingerprints differ, or a rank's dataset is null, every rank throws an
/// equal ArgumentError.
[[nodiscard]] std::shared_ptr<SubDataset> share_dataset(std::shared_ptr<const Dataset> dataset,
                                                        const std::shared_ptr<Communicator>& comm,
                                                        const ScatterOptions& options = {});

}  // namespace mn
