/// Gives one rank's minibatches, or one rank's order of samples, to all ranks, as ChainerMN's multi-node and
/// synchronized iterators do.
#pragma once

#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// Makes an iterator whose next() gives every rank of `comm` the minibatch of the root. It is for ranks that each
/// compute a part of one model. Only the root's iterator `actual` is used; other ranks may pass null. This call, next()
/// and load_state() are collective over `comm` and block. Tensors arrive on `comm->device()`. state() is the state of
/// `actual` on the root, and null on all other ranks. If `actual` throws an error, every rank throws an equal error:
/// ArgumentError for an ArgumentError, DataError for any other. Throws ArgumentError on every rank if the root passes
/// null.
///
/// Cost of a step: one small broadcast, and one broadcast for each tensor.
[[nodiscard]] std::shared_ptr<Iterator> create_multi_node_iterator(std::shared_ptr<Iterator> actual,
                                                                   std::shared_ptr<Communicator> comm, int root = 0);

/// Returns `actual` after it took the position and the order of the root's iterator, as ChainerMN's synchronized
/// iterator does. It is for iterators that begin with a random order of their own on each rank: from now on, iterators
/// of equal samples give equal minibatches on all ranks. Collective. Throws an equal error on every rank if a rank
/// passes null, or if an iterator can't continue from the root's state().
///
/// Cost: one broadcast, in this call alone.
[[nodiscard]] std::shared_ptr<Iterator> create_synchronized_iterator(std::shared_ptr<Iterator> actual,
                                                                     Communicator& comm, int root = 0);

}  // namespace mn
