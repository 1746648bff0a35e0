#include <mn/tensor/element_messages.hpp>

#include <string>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/comm/headed_messages.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

at::Tensor dense_elements(const at::Tensor& tensor, const char* call) {
  if (!tensor.defined()) throw ArgumentError(std::string(call) + ": an undefined tensor can't be sent");
  if (tensor.layout() != at::kStrided) throw ArgumentError(std::string(call) + ": give a sparse tensor's to_dense()");
  at::Tensor contiguous = (tensor.requires_grad() ? tensor.detach() : tensor).contiguous();
  static_cast<void>(buffer_view(contiguous));  // throws for other dtypes
  return contiguous;
}

MessageForm message_form(Communicator& comm, const at::Tensor& dense, int dest, int tag, const char* call) {
  MessageForm form = MessageForm::of(dense, call);
  form.by_device = tag == 0 && is_enqueued(comm, dense) ? 1 : 0;
  if (form.by_device != 0) form.number = comm.device_collectives()->messages(/*sent=*/true, dest);
  return form;
}

at::Tensor tensor_for(const MessageForm& form, int source, const Communicator& comm) {
  if (!form.is_valid()) {
    throw CommError("what rank " + std::to_string(source) +
                    " sent is not a tensor: receive with recv what send has sent");
  }
  return form.empty_on(c10::Device(comm.device()));
}

void send_with_form(Communicator& comm, std::span<const std::int64_t> head, const MessageForm& form,
                    const at::Tensor& dense, int dest, int tag) {
  const bool by_device = form.by_device != 0;
  HeadedMessages::send(comm, head, by_device ? ConstBufferView() : buffer_view(dense), dest, tag);
  if (by_device) send_elements(comm, dense, form, dest, tag);
}

at::Tensor recv_with_form(Communicator& comm, std::span<std::int64_t> head, const MessageForm& form,
                          const std::function<at::Tensor()>& into, int& source, int tag) {
  at::Tensor tensor;
  const auto elements = [&](int from) {
    source = from;
    tensor = into();
    return form.by_device != 0 ? BufferView() : BufferView(buffer_view(tensor));
  };
  HeadedMessages::recv(comm, head, elements, source, tag);
  if (form.by_device != 0) recv_elements(comm, tensor, form, source, tag);
  return tensor;
}

void send_elements(Communicator& comm, const at::Tensor& dense, const MessageForm& form, int dest, int tag) {
  if (form.by_device != 0) ++comm.device_collectives()->messages(/*sent=*/true, dest);
  ordered_send(comm, dense, dest, tag, form.by_device != 0);
}

void recv_elements(Communicator& comm, const at::Tensor& into, const MessageForm& form, int source, int tag) {
  if (form.by_device != 0) {
    const std::int64_t next = comm.device_collectives()->messages(/*sent=*/false, source)++;
    if (form.number != next) {
      throw CommError("receiving a tensor from rank " + std::to_string(source) + ": its message " +
                      std::to_string(form.number) + " was received before message " + std::to_string(next) +
                      ": receive tensors of a device in the order in which they are sent");
    }
  }
  ordered_recv(comm, into, source, tag, form.by_device != 0);
}

void send_elements(Communicator& comm, const at::Tensor& dense, int dest, int tag) {
  send_elements(comm, dense, message_form(comm, dense, dest, tag, "send"), dest, tag);
}

void recv_elements(Communicator& comm, const at::Tensor& into, int source, int tag) {
  const bool by_device = tag == 0 && is_enqueued(comm, into);
  if (by_device) ++comm.device_collectives()->messages(/*sent=*/false, source);
  ordered_recv(comm, into, source, tag, by_device);
}

}  // namespace mn
