#include <torch/torch.h>

#include <mn/train/compression/cast_compressor.hpp>

namespace mn {

CastCompressor::CastCompressor(const std::vector<at::Tensor>& parameters, at::ScalarType type,
                               std::shared_ptr<Trace> trace)
    : ErrorFeedback(parameters, std::vector<bool>(parameters.size(), true), std::move(trace)), type_(type) {}

void CastCompressor::lay_out(std::span<const std::size_t> order, Communicator& comm) {
  std::vector<at::Tensor> shapes;
  for (const auto& parameter : parameters()) {
    shapes.push_back(at::empty({parameter.numel()}, at::TensorOptions(at::kMeta).dtype(type_)));
  }
  wire_ = FlatBuffer();  // freed before the next is made, on every rank
  wire_ = FlatBuffer(shapes, 0, comm, order);
}

void CastCompressor::reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) {
  std::vector<BufferView> wire;
  for (const std::size_t i : members) {
    corrected(i).sub_(wire_.view(i).copy_(corrected(i)));
    wire.push_back(wire_.messages()[wire_.message_index(i)]);
  }
  average(wire, comm);
  for (const std::size_t i : members) gradient(gradients, i).copy_(wire_.view(i));
}

}  // namespace mn
