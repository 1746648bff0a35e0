#include <mn/trainer/batch_tensors.hpp>

#include <algorithm>

namespace mn {
namespace {

std::vector<at::Tensor*> tensors_of(Batch& batch) {
  std::vector<at::Tensor*> all = {&batch.data, &batch.target};
  for (BatchField& field : batch.fields) all.insert(all.end(), {&field.values, &field.offsets});
  std::erase_if(all, [](const at::Tensor* tensor) { return !tensor->defined(); });
  return all;
}

}  // namespace

std::vector<at::Tensor> distinct_tensors(Batch batch) {
  std::vector<at::Tensor> distinct;
  for (const at::Tensor* tensor : tensors_of(batch)) {
    const auto is_same = [&](const at::Tensor& other) { return other.is_same(*tensor); };
    if (std::ranges::none_of(distinct, is_same)) distinct.push_back(*tensor);
  }
  return distinct;
}

std::vector<double> numbers_of(const Batch& batch) {
  std::vector<double> all = {static_cast<double>(batch.samples), batch.loss_weight()};
  for (const BatchField& field : batch.fields) all.push_back(static_cast<double>(field.longest));
  return all;
}

Batch with_tensors(Batch batch, const std::vector<at::Tensor>& before, const std::vector<at::Tensor>& after) {
  batch.indices.clear();  // they describe the original minibatch
  for (at::Tensor* tensor : tensors_of(batch)) {
    const auto found = std::ranges::find_if(before, [&](const at::Tensor& other) { return other.is_same(*tensor); });
    *tensor = after[static_cast<std::size_t>(found - before.begin())];
  }
  return batch;
}

}  // namespace mn
