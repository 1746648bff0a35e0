/// Keys that munge seals: of all users on all nodes of a cluster, only the one who started the job can open them.
///
/// Each process that accepts connections makes a random key and offers it as a munge credential, which names its maker
/// and which munged decodes for that user alone. The key of a connection is derived from it and the job's name, so that
/// two jobs of one user don't agree. Where munge does not answer, in containers and on clusters with another
/// authentication, both ends take a key of the job's name and of MN_LAUNCH_KEY instead. Without that variable it keeps
/// jobs apart, but not a user of the cluster out who means harm. An end where munge does answer does not agree to that:
/// by the weak key, which is made of the same, both learn that munge divides them, and end.
///
/// Cost: three requests to munged for each process, and one for each call that it makes. Source: munge(3), munge(7).
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include <mn/core/net/key.hpp>

namespace mn::launcher {

class MungeKeys : public Keys {
 public:
  /// `job`: the same on all ranks of the job, and no other's. `is_secret`: other users can't guess it.
  MungeKeys(const std::string& job, bool is_secret) : job_(job), is_secret_(is_secret), fallback_(key_of_text(job)) {}
  [[nodiscard]] Offer offer() override;
  [[nodiscard]] Key accept(const std::string& sealed) override;
  [[nodiscard]] std::optional<Key> weak_key() const override { return derive_key(fallback_, {"weak"}); }
  [[nodiscard]] std::string origin() override;
  [[nodiscard]] std::string why_weak() override;

 private:
  std::string job_;
  bool is_secret_;
  Key fallback_;  ///< where munge does not answer
  std::optional<uid_t> user_;
  std::optional<Offer> own_;
};

}  // namespace mn::launcher
