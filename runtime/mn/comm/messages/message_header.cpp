#include <mn/comm/messages/message_header.hpp>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr std::uint32_t kMagic = 0x6d6e6d31;  // "mnm1"

std::string elements_text(std::uint64_t count, DType dtype) {
  return std::to_string(count) + " " + std::string(name_of(dtype));
}

}  // namespace

MessageHeader MessageHeader::of(const ConstBufferView& buffer) {
  return {kMagic, static_cast<std::uint32_t>(buffer.dtype), buffer.count};
}

bool MessageHeader::is_whole(int bytes) const noexcept { return bytes == sizeof *this && magic == kMagic; }

void MessageHeader::check(int bytes, const ConstBufferView& expected, const std::string& what) const {
  if (!is_whole(bytes)) {
    throw CommError(what + ": the message was not sent by send(): receive with recv_obj what send_obj has sent");
  }
  const auto sent_dtype = static_cast<DType>(dtype);
  if (count == expected.count && sent_dtype == expected.dtype) return;
  throw CommError(what + ": " + elements_text(count, sent_dtype) + " came, " +
                  elements_text(expected.count, expected.dtype) +
                  " were expected: send and recv must agree on count and dtype");
}

int received_bytes(const MPI_Status& status) {
  int bytes = 0;
  mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  return bytes;
}

std::string describe_send(const ConstBufferView& buffer, int dest) {
  return "send of " + elements_text(buffer.count, buffer.dtype) + " to rank " + std::to_string(dest);
}

std::string describe_recv(int source) {
  return "recv from " + (source == MPI_ANY_SOURCE ? "any rank" : "rank " + std::to_string(source));
}

}  // namespace mn
