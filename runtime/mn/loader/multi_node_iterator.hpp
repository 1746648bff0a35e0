/// Gives one rank's minibatches to all ranks, as ChainerMN's multi-node iterator does.
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

}  // namespace mn
