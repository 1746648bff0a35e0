/// Keys that munge seals: of all users on all nodes of a cluster, only the one who started the job can open them.
///
/// Each process that accepts connections makes a random key and offers it as a munge credential, which names its maker
/// and which munged decodes for that user alone. Where munge does not answer, in containers and on clusters with
/// another authentication, both ends take a key of the job's name instead; it keeps jobs apart, but not a user of the
/// cluster out who means harm. An end where munge does answer does not agree to that.
///
/// Cost: one request to munged for each process that is called, and one for each call. Source: munge(3), munge(7).
#pragma once

#include <optional>
#include <string>

#include "exchange/keys.hpp"

namespace mn::launcher {

class MungeKeys : public Keys {
 public:
  /// `fallback`: where munge does not answer.
  explicit MungeKeys(const Key& fallback) : fallback_(fallback) {}
  [[nodiscard]] Offer offer() override;
  [[nodiscard]] Key accept(const std::string& sealed) override;

 private:
  Key fallback_;
  std::optional<Offer> own_;
};

}  // namespace mn::launcher
