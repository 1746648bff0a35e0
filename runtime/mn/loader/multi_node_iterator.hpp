/// One rank's minibatches for all ranks: ChainerMN's multi-node iterator.
#pragma once

#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// An iterator whose next() gives every rank of `comm` the root's minibatch, for ranks with parts of one model: only
/// the root reads data. `actual` is the root's iterator, and is ignored on other ranks. This call, next() and
/// load_state() are collective and block; tensors arrive on `comm->device()`. state() is the root's, and null on other
/// ranks. An error of `actual` becomes an equal DataError on every rank. Throws ArgumentError on every rank if the
/// root's iterator is null.
///
/// Cost of a step: a small broadcast, and a broadcast of each tensor.
[[nodiscard]] std::shared_ptr<Iterator> create_multi_node_iterator(std::shared_ptr<Iterator> actual,
                                                                   std::shared_ptr<Communicator> comm, int root = 0);

}  // namespace mn
