#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/messages.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// A tensor without elements, as the sender described its own.
struct TensorForm {
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::string text() const { return std::string(toString(dtype)) + " " + nlohmann::json(shape).dump(); }
};

TensorForm recv_form(Communicator& comm, int source, int tag) {
  const nlohmann::json form = comm.recv_json(source, tag);
  return read_json("what rank " + std::to_string(source) + " sent as a tensor", [&] {
    return TensorForm{static_cast<at::ScalarType>(whole_number<int>(form.at("dtype"))),
                      whole_numbers<std::int64_t>(form.at("shape"))};
  });
}

}  // namespace

void send_tensor(Communicator& comm, const at::Tensor& tensor, int dest, int tag) {
  if (!tensor.defined()) throw ArgumentError("send_tensor: an undefined tensor can't be sent");
  const at::Tensor dense = tensor.detach().contiguous();
  const BufferView elements = buffer_view(dense);
  comm.send_obj(nlohmann::json{{"dtype", static_cast<int>(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}},
                dest, tag);
  comm.send(elements, dest, tag);
}

at::Tensor recv_tensor(Communicator& comm, int source, int tag) {
  const TensorForm form = recv_form(comm, source, tag);
  at::Tensor tensor = at::empty(form.shape, at::TensorOptions(form.dtype).device(c10::Device(comm.device())));
  comm.recv(tensor, source, tag);
  return tensor;
}

void recv_tensor(Communicator& comm, const at::Tensor& into, int source, int tag) {
  if (!into.defined()) throw ArgumentError("recv_tensor: there is no tensor to receive into: leave it out to get one");
  const TensorForm form = recv_form(comm, source, tag);
  const TensorForm own{into.scalar_type(), into.sizes().vec()};
  if (form.dtype != own.dtype || form.shape != own.shape) {
    throw CommError("recv_tensor from rank " + std::to_string(source) + ": " + form.text() + " came, " + own.text() +
                    " was expected");
  }
  const at::Tensor dense = into.detach().is_contiguous() ? into.detach() : at::empty(into.sizes(), into.options());
  comm.recv(dense, source, tag);
  if (!into.is_contiguous()) into.detach().copy_(dense);
}

}  // namespace mn
