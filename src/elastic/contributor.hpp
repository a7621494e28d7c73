#pragma once
// A worker's connection to its aggregator, in a thread of its own: it connects, and connects again
// after each failure, and keeps every contribution until its round was committed.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/files/file_stamp.hpp"
#include "src/base/repeated_messages.hpp"
#include "src/elastic/contribution_bytes.hpp"
#include "src/elastic/uplink.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::elastic {

class Contributor final : private UplinkUser {
 public:
  static constexpr std::size_t kMaxPending = 8;  // contributions without a fate

  // options.enroll: its worker is chosen here. key_path: of the keys that sign contributions; "":
  // none does.
  static Result<std::unique_ptr<Contributor>> create(UplinkOptions options,
                                                     const std::string& key_path);
  Contributor(const Contributor&) = delete;
  Contributor& operator=(const Contributor&) = delete;
  const Uplink& uplink() const { return *uplink_; }
  Uplink& uplink() { return *uplink_; }

  // Before contribute(). The round is then one to which this worker has contributed. InvalidUsage:
  // it is already.
  Status claim(std::uint64_t round);
  // False: kMaxPending contributions have no fate yet.
  bool has_room();
  // The aggregator counts rounds anew: what is pending will never count.
  void begin_anew();
  // Queues it, and returns.
  void contribute(std::uint64_t round, double weight, Packed packed);

  // Contributions that were refused since the last call: their worker adds them to its residual.
  std::vector<Packed> take_refused();

  // Waits until no contribution is without a fate. Meanwhile, and until the next contribution, no
  // round waits for this worker.
  Status wait_all(double seconds);

  struct Counts {
    std::uint64_t offered = 0, committed = 0, late = 0, refused = 0, deferred = 0, connects = 0;
  };
  Counts counts() const;

 private:
  struct Pending {
    std::uint64_t round = 0;
    Packed packed;
    bool is_offered = false;  // over this connection
  };

  Contributor() = default;
  Status challenged(replication::MessageLink& link) override;
  void look_at_keys();
  WorkerClaim claim() const;
  void connected(const Enrolled& enrolled, const std::string& results) override;
  void speak(replication::MessageLink& link) override;
  Status hear(replication::MessageLink& link) override;
  void opened(std::uint64_t /*round*/) override {}
  void lost(const Status& /*why*/) override {}
  Status take_fate(std::span<const std::byte> content);
  void send_bytes(replication::MessageLink& link, std::uint64_t round);
  Pending* find(std::uint64_t round);

  Enroll said_;  // what it says of itself
  // The thread's.
  FileStamp key_file_{};
  trust::SigningKeysRef keys_;  // nullptr: none
  RepeatedMessages troubles_;
  std::uint64_t joins_ = 0;
  RootNonce nonce_{};             // of this connection
  bool has_said_rest_ = false;    // over this connection
  std::uint64_t in_transit_ = 0;  // the round whose offer has no answer; 0: none
  double early_until_ = 0;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  std::uint64_t last_round_ = 0;  // that it has contributed to
  bool rests_ = false;            // no round is to wait for it
  std::vector<Packed> refused_;
  Counts counts_;

  std::unique_ptr<Uplink> uplink_;  // last: its thread ends first
};

}  // namespace sparcl::elastic
