/// The tensors and numbers of a minibatch, as a CUDA graph reads them. Internal.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/loader/batch.hpp>

namespace mn {

/// The tensors of a minibatch without duplicates (`data` and the first field may be equal).
[[nodiscard]] std::vector<at::Tensor> distinct_tensors(Batch batch);
/// The numbers of a minibatch: samples, weight, and the longest sequence of each field.
[[nodiscard]] std::vector<double> numbers_of(const Batch& batch);
/// `batch` with after[i] in place of its tensor before[i]. `before` is distinct_tensors(batch).
[[nodiscard]] Batch with_tensors(Batch batch, const std::vector<at::Tensor>& before,
                                 const std::vector<at::Tensor>& after);

}  // namespace mn
