#pragma once
// The desk of an aggregator that has a parent: the parent decides which contributions count. Here
// are their entries, and they are summed here.
//
// When its connection ends, so do those of its workers: they offer again, here or elsewhere, what
// is in no committed round.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/elastic/contribution_desk.hpp"
#include "src/elastic/uplink.hpp"

namespace sparcl::elastic {

class BranchDesk final : public ContributionDesk, private UplinkUser {
 public:
  // above: where the parent is; who says so follows from the options of the desk.
  static Result<std::unique_ptr<BranchDesk>> create(const kernels::KernelSet& kernels,
                                                    DeskOptions options, UplinkOptions above,
                                                    replication::Listener listener);
  ~BranchDesk();

  // What has come since the last call.
  struct Turn {
    std::uint64_t life = 0;   // of the connection to the parent: what came before it is void
    std::uint64_t round = 0;  // rounds before it have ended
    bool sums_weights = false;
    bool sums_at_once = true;
    std::vector<Arrival> arrivals;
    std::optional<Collect> collect;         // it comes after all arrivals of its round
    std::vector<aggregate::Listed> listed;  // that count in that round
  };
  // Waits for something new, at most so long.
  Turn wait(double seconds);
  // The sums of its own branches; none once the connection is another one.
  std::vector<BranchSum> collect_sums(std::uint64_t life, const Collect& collect);
  // All sums of a round go to the parent, unless the connection is another one by now.
  void deliver(std::uint64_t life, std::uint64_t round, std::vector<BranchSum> sums);

  // Says goodbye to the parent and to the workers, for good.
  void end();

  Uplink& uplink() { return *uplink_; }

 private:
  struct Said {
    replication::MessageType type = replication::MessageType::kAlive;
    std::vector<std::byte> content;
    std::uint64_t round = 0;
    Buffer bytes;  // chunks that follow
  };

  BranchDesk(const kernels::KernelSet& kernels, DeskOptions options);

  // --- of the desk
  Status check_open() const override;
  Enrolled enrolled() const override;
  std::uint64_t open_round() const override { return rules_.round; }
  Status check_member(const Member& member) const override;
  Status join(const Member& member) override;
  void leave(const Member& member, bool is_gone) override;
  std::optional<FateTold> find(const aggregate::ContributionId& id) const override;
  void take(Given given) override;
  void withdraw(const aggregate::ContributionId& id) override;
  bool has_come(const Member& member) const override;
  void turned(double now) override;
  replication::ReportFields report() const override;

  // --- of the connection to the parent
  void connected(const Enrolled& enrolled, const std::string& results) override;
  void opened(std::uint64_t round) override;
  void speak(replication::MessageLink& link) override;
  Status hear(replication::MessageLink& link) override;
  void lost(const Status& why) override;

  void note_open(std::uint64_t round);
  Status take_turned_away(std::span<const std::byte> content);
  Status take_verdict(std::span<const std::byte> content);
  Status list(Given& given, const Verdict& verdict);
  void note_end(const aggregate::ContributionId& id, const FateTold& fate, bool is_offered);
  Status take_collect(std::span<const std::byte> content);
  void unpark(const aggregate::ContributionId& id);
  void begin_anew();

  template <class Message>
  void say(replication::MessageType type, const Message& message) {
    outbox_.push_back({type, serialise(message), 0, {}});
    uplink_->wake();
  }

  // The mutex guards all below but the pointer.
  bool is_connected_ = false;
  Enrolled rules_;  // of the parent, with the round that is open now
  std::deque<Said> outbox_;
  std::map<aggregate::ContributionId, Given> parked_;  // the parent has not answered
  struct Counts {
    std::uint64_t committed = 0, late = 0, refused = 0;  // contributions
  } counts_;
  Collect coming_;  // its last message has not come
  struct Wanted {
    Collect collect;
    std::vector<aggregate::Listed> listed;
  };
  std::deque<Wanted> wanted_;  // for the owner

  std::unique_ptr<Uplink> uplink_;  // its thread ends first
};

}  // namespace sparcl::elastic
