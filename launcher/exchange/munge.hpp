/// Keys sealed by munge: of all users of the cluster, only the owner of the job can open the keys.
///
/// Each listening process makes a random key and offers the key as a munge credential. The daemon munged decodes the
/// credential only for the owner of the job. The key of a connection is derived from the random key and the job's name,
/// so two jobs of one user have different keys.
///
/// If munge answers on neither of the two nodes (in containers, or with a different authentication), both ends use the
/// weak key, which is made of the job's name and MN_LAUNCH_KEY. Without MN_LAUNCH_KEY, the weak key tells jobs apart,
/// but does not keep out a malicious user. If munge answers on only one of the two nodes, both ends also use the weak
/// key, but only to learn of the difference, and then give up.
///
/// Cost: three requests to munged for each process, and one request for each outgoing call. Source: munge(3), munge(7).
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include <mn/core/net/key.hpp>

namespace mn::launcher {

class MungeKeys : public Keys {
 public:
  /// `job` is unique to the job and equal on all its ranks. `is_secret`: other users cannot guess `job`.
  MungeKeys(const std::string& job, bool is_secret) : job_(job), is_secret_(is_secret), fallback_(key_of_text(job)) {}
  [[nodiscard]] Offer offer() override;
  [[nodiscard]] Key accept(const std::string& sealed) override;
  [[nodiscard]] std::optional<Key> weak_key() const override { return derive_key(fallback_, {"weak"}); }
  [[nodiscard]] std::string origin() override;
  [[nodiscard]] std::string why_weak() override;

 private:
  std::string job_;
  bool is_secret_;
  Key fallback_;  ///< without munge
  std::optional<uid_t> user_;
  std::optional<Offer> own_;
};

}  // namespace mn::launcher
