#pragma once
// The desk of a root: the rounds decide which contributions count (src/aggregate/round).

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/elastic/contribution_desk.hpp"

namespace sparcl::elastic {

// A contribution that a round before this life has counted.
struct Remembered {
  aggregate::ContributionId id;
  std::uint64_t in_round = 0;
};

class RootDesk final : public ContributionDesk {
 public:
  static Result<std::unique_ptr<RootDesk>> create(const kernels::KernelSet& kernels,
                                                  DeskOptions options,
                                                  replication::Listener listener,
                                                  std::span<const Remembered> past);
  // Says goodbye to the workers.
  ~RootDesk() { stop(); }

  // What has come since the last call. is_closed: all of the open round has been given, and
  // committed() or failed() must follow.
  struct Turn {
    std::vector<Arrival> arrivals;
    bool is_closed = false;
    aggregate::Closing closing;  // if it is closed
  };
  // Waits for something new, at most so long.
  Turn wait(double seconds);
  // The sums of the branches, and what is left of the closed round: not what a branch lost.
  struct Sums {
    std::vector<BranchSum> sums;
    aggregate::Closing closing;
  };
  Sums collect_sums(std::span<const Collect::Clip> clips);
  // Workers are told of their contributions.
  void committed();
  void failed(const std::string& reason);

  std::uint32_t listed() const;  // in the open round, on time

 private:
  RootDesk(const kernels::KernelSet& kernels, DeskOptions options);
  Enrolled enrolled() const override;
  std::uint64_t open_round() const override { return round_.number(); }
  Status check_member(const Member& member) const override;
  Status check_offer(aggregate::WorkerId worker, const Offered& offered) const override;
  bool look_at_files(double now) override { return contributors_.look(now); }
  Status join(const Member& member) override;
  void leave(const Member& member, bool /*is_gone*/) override { round_.leave(member.worker); }
  std::optional<FateTold> find(const aggregate::ContributionId& id) const override;
  void take(Given given) override;
  void withdraw(const aggregate::ContributionId& id) override { round_.withdraw(id); }
  bool has_come(const Member& member) const override;
  void turned(double now) override;
  replication::ReportFields report() const override;
  std::string fault_of(const Given& given) const;
  aggregate::Answer offer(const Given& given, std::uint32_t slot, std::string fault);
  void tell_closing(const aggregate::Closing& closing, const aggregate::Answer& answer);

  // The service's thread's.
  TrustedContributors contributors_;
  RootNonce nonce_{};  // of this process

  // The mutex guards all below.
  aggregate::Round round_;
  std::uint64_t told_closing_ = 0;  // wait() has given the end of this round
  struct Counts {
    std::uint64_t committed = 0, late = 0, refused = 0;  // contributions
    std::uint64_t expelled = 0;                          // workers, each time
  } counts_;
};

}  // namespace sparcl::elastic
