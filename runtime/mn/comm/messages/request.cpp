#include <mn/comm/messages/request.hpp>

#include <exception>
#include <utility>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/log.hpp>

namespace mn {

Request::Request() noexcept = default;
Request::Request(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Request::Request(Request&& other) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  Request finished(std::move(other));
  std::swap(impl_, finished.impl_);
  return *this;
}

Request::~Request() {
  if (!impl_) return;
  if (std::uncaught_exceptions() > 0 || !mpi_is_up()) {
    // wait() might block forever: other ranks may never send the message, or never make the collective call.
    impl_->abandon();
    static_cast<void>(impl_.release());
    return;
  }
  try {
    wait();
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

void Request::wait() {
  if (!impl_) return;
  auto impl = std::exchange(impl_, nullptr);
  try {
    impl->wait();
  } catch (...) {
    if (impl->is_in_use()) static_cast<void>(impl.release());
    throw;
  }
}

bool Request::is_done() { return !impl_ || impl_->is_done(); }

}  // namespace mn
