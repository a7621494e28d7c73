#pragma once
// The memory that peers cause in a server: bytes that they have sent, bytes that wait for them, and
// objects that are made or kept only for them. Unproven sessions share a small part of it.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace sparcl::replication {

class PeerBudget {
 public:
  // Bytes of the budget, as long as it lives. An empty one counts nothing.
  class Charge {
   public:
    Charge() = default;
    explicit Charge(std::shared_ptr<PeerBudget> budget, std::uint64_t bytes = 0)
        : budget_(std::move(budget)), is_proven_(true) {
      set(bytes);
    }
    // The charge of a peer that has proven nothing yet.
    static Charge unproven(std::shared_ptr<PeerBudget> budget) {
      Charge charge;
      charge.budget_ = std::move(budget);
      return charge;
    }
    Charge(Charge&& other) noexcept
        : budget_(std::move(other.budget_)),
          bytes_(std::exchange(other.bytes_, 0)),
          is_proven_(other.is_proven_) {}
    Charge& operator=(Charge&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      std::swap(is_proven_, other.is_proven_);
      return *this;
    }
    ~Charge() { set(0); }

    void set(std::uint64_t bytes) {
      if (budget_ != nullptr) budget_->change(bytes_, bytes, is_proven_);
      bytes_ = bytes;
    }
    void prove() {
      const std::uint64_t bytes = bytes_;
      set(0);
      is_proven_ = true;
      set(bytes);
    }
    std::uint64_t bytes() const { return bytes_; }

   private:
    std::shared_ptr<PeerBudget> budget_;
    std::uint64_t bytes_ = 0;
    bool is_proven_ = false;
  };

  explicit PeerBudget(std::uint64_t limit = kMinLimit) : limit_(limit) {}
  // An account of its own, whose bytes count there, too.
  static std::shared_ptr<PeerBudget> within(std::shared_ptr<PeerBudget> whole) {
    auto account = std::make_shared<PeerBudget>(UINT64_MAX);
    account->whole_ = std::move(whole);
    return account;
  }
  // given: 0 for twice as many as the model has, kMinLimit at least: sharded replicas that come
  // together need all bytes once.
  static std::uint64_t limit_for(std::uint64_t given, std::uint64_t model_bytes) {
    return given != 0 ? given : std::max(2 * model_bytes, kMinLimit);
  }

  void set_limit(std::uint64_t limit) { limit_ = limit; }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t unproven_limit() const {
    return std::max(limit_ / kUnprovenPart, kMinUnprovenLimit);
  }
  std::uint64_t used() const { return used_; }
  std::uint64_t unproven() const { return unproven_; }
  bool has_room(std::uint64_t bytes) const {
    return bytes <= limit_ && used_ <= limit_ - bytes &&
           (whole_ == nullptr || whole_->has_room(bytes));
  }
  bool is_over() const { return used_ > limit_; }
  bool has_unproven_room(std::uint64_t bytes) const {
    return bytes <= unproven_limit() && unproven_ <= unproven_limit() - bytes;
  }

 private:
  static constexpr std::uint64_t kMinLimit = std::uint64_t{64} << 20;  // heuristic
  static constexpr std::uint64_t kUnprovenPart = 4;                    // heuristic
  static constexpr std::uint64_t kMinUnprovenLimit =
      std::uint64_t{16} << 20;  // the largest list of tensors has half of it

  void change(std::uint64_t from, std::uint64_t to, bool is_proven) {
    used_ += to - from;
    if (!is_proven) unproven_ += to - from;
    if (whole_ != nullptr) whole_->change(from, to, is_proven);
  }

  std::uint64_t limit_;
  std::shared_ptr<PeerBudget> whole_;
  std::atomic<std::uint64_t> used_ = 0;  // an update may end in another thread
  std::atomic<std::uint64_t> unproven_ = 0;
};
using PeerBudgetRef = std::shared_ptr<PeerBudget>;

}  // namespace sparcl::replication
