/// A semaphore's count, held for a scope.
#pragma once

#include <semaphore>

namespace mn::data {

class Permit {
 public:
  explicit Permit(std::counting_semaphore<>& semaphore) : semaphore_(semaphore) { semaphore_.acquire(); }
  ~Permit() { semaphore_.release(); }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

 private:
  std::counting_semaphore<>& semaphore_;
};

}  // namespace mn::data
