#include <string>

#include <mn/comm/argument_check.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

[[noreturn]] void refuse(std::string_view operation, const std::string& what) {
  throw ArgumentError(std::string(operation) + ": " + what);
}

std::string elements(const ConstBufferView& buffer) {
  return std::to_string(buffer.count) + " elements of " + std::string(name_of(buffer.dtype));
}

}  // namespace

void check_rank(std::string_view operation, std::string_view role, int rank, int size) {
  if (rank >= 0 && rank < size) return;
  refuse(operation, std::string(role) + " " + std::to_string(rank) +
                        " is out of range: the communicator's ranks are 0 to " + std::to_string(size - 1));
}

void check_peer(std::string_view operation, std::string_view role, int peer, int rank, int size) {
  check_rank(operation, role, peer, size);
  if (peer != rank) return;
  refuse(operation, std::string(role) + " " + std::to_string(peer) +
                        " is this rank itself, which can't wait for itself: copy the data instead");
}

void check_reducible(std::string_view operation, const ConstBufferView& buffer) {
  if (buffer.dtype != DType::kBool) return;
  refuse(operation,
         "booleans can't be reduced: convert them to uint8, whose max is their \"or\" and whose min is their "
         "\"and\"");
}

void check_tag(std::string_view operation, int tag, int max_tag) {
  if (tag >= 0 && tag <= max_tag) return;
  refuse(operation, "tag " + std::to_string(tag) + " is out of range: use 0 to " + std::to_string(max_tag));
}

void check_buffer(std::string_view operation, std::string_view role, const ConstBufferView& buffer, Device device) {
  if (buffer.data == nullptr && buffer.count > 0) {
    refuse(operation, std::string(role) + " has " + elements(buffer) + " but no memory");
  }
  if (buffer.device.type != DeviceType::kCpu && buffer.device != device) {
    refuse(operation, std::string(role) + " lies on " + buffer.device.str() + ", but the communicator's device is " +
                          device.str() + ": move the data, or create the communicator with that device");
  }
}

void check_same_dtype(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv) {
  if (send.dtype == recv.dtype) return;
  refuse(operation, "send holds " + std::string(name_of(send.dtype)) + ", recv " + std::string(name_of(recv.dtype)));
}

void check_parts(std::string_view operation, std::string_view whole_role, const ConstBufferView& whole,
                 std::string_view part_role, const ConstBufferView& part, int parts) {
  if (whole.count == part.count * static_cast<std::size_t>(parts)) return;
  refuse(operation, std::string(whole_role) + " has " + elements(whole) + "; with " + std::to_string(parts) +
                        " ranks and " + std::to_string(part.count) + " in " + std::string(part_role) +
                        " it must have " + std::to_string(part.count * static_cast<std::size_t>(parts)));
}

bool check_in_place(std::string_view operation, const ConstBufferView& whole, const ConstBufferView& part, int own) {
  const auto* whole_begin = static_cast<const std::byte*>(whole.data);
  const auto* part_begin = static_cast<const std::byte*>(part.data);
  if (whole.count == 0 || part.count == 0) return false;
  if (part_begin == whole_begin + static_cast<std::size_t>(own) * part.bytes()) return true;
  const bool apart = part_begin + part.bytes() <= whole_begin || whole_begin + whole.bytes() <= part_begin;
  if (!apart)
    refuse(operation, "send and recv overlap, and not in the place that rank " + std::to_string(own) + " has");
  return false;
}

}  // namespace mn
