#include <mn/checkpoint/weights_reader.hpp>

#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty_strided.h>

namespace mn {

at::Tensor WeightsReader::read(std::size_t i) const {
  const at::Tensor& form = i < tensors.size() ? tensors[i].second : averages[i - tensors.size()].second;
  at::Tensor tensor = at::empty_strided(form.sizes(), form.strides(), form.options().device(at::kCPU));
  read_bytes(i, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  return tensor;
}

namespace {

/// The form that the tensor `name` of the module has.
at::Tensor module_form(const std::string& name, const at::Tensor& form, const FileLayout& layout) {
  if (layout.flattens(name)) return form.flatten();
  return form.dim() == 2 && layout.transposes(name) ? form.t() : form;
}

}  // namespace

void arrange(WeightsReader& reader, const FileLayout& layout) {
  NamedTensors kept;
  std::vector<std::size_t> numbers;  // [kept] the tensor's number in the files
  const std::size_t averages = reader.tensors.size();
  for (std::size_t i = 0; i < averages; ++i) {
    const auto& [stored, form] = reader.tensors[i];
    const std::string name = layout.module_name(stored);
    if (layout.ignores(name)) continue;
    kept.emplace_back(name, module_form(name, form, layout));
    numbers.push_back(i);
  }
  for (std::size_t j = 0; j < reader.averages.size(); ++j) numbers.push_back(averages + j);
  reader.tensors = std::move(kept);
  reader.read_bytes = [numbers, read = std::move(reader.read_bytes)](std::size_t i, std::span<std::byte> out) {
    read(numbers[i], out);
  };
}

}  // namespace mn
