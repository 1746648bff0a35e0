/// Iterators that get the minibatch of each step from a function.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <mn/loader/iterator.hpp>

namespace mn {

/// Returns this rank's minibatch of step 0 … steps_per_epoch − 1 of an epoch (both counted from 0). If Batch::samples
/// is 0, the iterator takes the first dimension of Batch::data.
using MakeBatch = std::function<Batch(std::int64_t epoch, std::int64_t step)>;

/// An iterator that calls `make_batch` for each step; `steps_per_epoch` must be equal on all ranks. The iterator
/// resumes at the checkpoint's step, or at the same fraction of the epoch if steps_per_epoch has changed. If
/// minibatches are to be the same after an interruption, `make_batch` must depend on epoch, step and rank alone; so
/// seed random generators with epoch and step. Throws ArgumentError if steps_per_epoch < 1 or the function is empty.
[[nodiscard]] std::shared_ptr<Iterator> create_iterator(std::int64_t steps_per_epoch, MakeBatch make_batch);

}  // namespace mn
