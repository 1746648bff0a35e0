/// Makes an iterator from a function that returns the minibatch of each step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <mn/loader/iterator.hpp>

namespace mn {

/// Returns this rank's minibatch of a step. Epochs are counted from 0, and steps from 0 in each epoch. If
/// Batch::samples is 0, the iterator sets it to the first dimension of Batch::data.
using MakeBatch = std::function<Batch(std::int64_t epoch, std::int64_t step)>;

/// Makes an iterator that calls `make_batch` for each step; `steps_per_epoch` must be equal on all ranks. A job that
/// resumes continues at the checkpoint's step or, if steps_per_epoch has changed, at the same fraction of the epoch. It
/// gets the same minibatches only if `make_batch` depends on epoch, step and rank alone, so seed random generators with
/// epoch and step. Throws ArgumentError if steps_per_epoch < 1, or if `make_batch` is empty.
[[nodiscard]] std::shared_ptr<Iterator> create_iterator(std::int64_t steps_per_epoch, MakeBatch make_batch);

}  // namespace mn
