/// Iterators of one's own: a function from a step to its minibatch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <mn/loader/iterator.hpp>

namespace mn {

/// Returns this rank's minibatch of step 0 … steps_per_epoch − 1 of an epoch (both counted from 0). Batch::samples may
/// be left 0: then it is the first dimension of Batch::data.
using MakeBatch = std::function<Batch(std::int64_t epoch, std::int64_t step)>;

/// An iterator that asks `make_batch` for each step; every rank gives the same `steps_per_epoch`. It resumes where a
/// checkpoint was taken; with another number of steps an epoch, at the same fraction of the epoch. The minibatches are
/// then the same as without the interruption if they are a function of epoch and step (and of the rank): draw random
/// numbers from a generator that these seed. Throws ArgumentError if steps_per_epoch < 1 or the function is empty.
[[nodiscard]] std::shared_ptr<Iterator> create_iterator(std::int64_t steps_per_epoch, MakeBatch make_batch);

}  // namespace mn
