/// Variables of the environment.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include <mn/core/environment.hpp>

namespace mn::test {

/// A variable that a test sets, until the test is over.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name), before_(environment(name)) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace mn::test
