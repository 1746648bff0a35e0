/// How the two ends of a connection come to one key.
#pragma once

#include <string>

#include "exchange/key.hpp"

namespace mn::launcher {

class Keys {
 public:
  /// The listening end's key, and what tells it to those callers alone who may know it.
  struct Offer {
    Key key;
    std::string sealed;
  };

  Keys() = default;
  virtual ~Keys() = default;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  /// For a connection that this process accepts. Throws CommError.
  [[nodiscard]] virtual Offer offer() = 0;
  /// For a connection that this process makes: the key behind what the other end offers. Throws CommError that says
  /// why there is none.
  [[nodiscard]] virtual Key accept(const std::string& sealed) = 0;
  /// Where the key is from, for people: "is random, …".
  [[nodiscard]] virtual std::string origin() = 0;
};

/// A key that both ends have already.
class SharedKey : public Keys {
 public:
  explicit SharedKey(const Key& key) : key_(key) {}
  [[nodiscard]] Offer offer() override { return {key_, ""}; }
  [[nodiscard]] Key accept(const std::string& sealed) override;
  [[nodiscard]] std::string origin() override { return "is random, and came through the launcher's server"; }

 private:
  Key key_;
};

}  // namespace mn::launcher
