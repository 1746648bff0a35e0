/// How well an order mixes samples that are stored class by class.
#pragma once

#include <cstdint>

#include <mn/data/order.hpp>

namespace mn::test {

struct Mixing {
  double median_distance = 0;  ///< in positions, of neighbors in storage
  double near = 0;             ///< part of the neighbors in storage that are in one batch
  double classes = 0;          ///< different ones in a batch, on average
  double chi_square = 0;  ///< statistic of the classes in batches, over its degrees of freedom; a full shuffle has 1
};

/// The mixing of n samples of `classes` equally large classes, stored one class after another, in batches of `batch`
/// positions.
[[nodiscard]] Mixing measure_mixing(std::int64_t n, const data::OrderOptions& options, std::int64_t classes,
                                    std::int64_t batch);

/// A table of default orders and full shuffles, on standard output.
void print_mixing();

}  // namespace mn::test
