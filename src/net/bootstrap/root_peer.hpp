#pragma once
// One connection at the root. It is unauthenticated until it has joined, which only a holder of the
// secret can.

#include <memory>
#include <optional>

#include "src/net/bootstrap/bootstrap_messages.hpp"
#include "src/net/bootstrap/record_line.hpp"

namespace sparcl::net {

class RootPeer {
 public:
  // kUnauthenticated: the handshake is not finished. kJoined: the rank waits for the other ranks.
  // kLeaving: the answer is being sent.
  enum class Phase { kUnauthenticated, kJoined, kLeaving, kGone };

  RootPeer(Socket socket, const Secret& secret, double now, double handshake_s);

  Phase phase() const { return phase_; }
  const Socket& socket() const { return line().socket(); }
  short events() const;  // for poll()
  double born() const { return born_; }
  // The end of its phase, independent of the other side; in kJoined: the timeout of its rank.
  double deadline() const { return deadline_; }

  // Moves bytes. A complete join is returned once, and the phase is then kJoined.
  std::optional<Join> step(double now);
  int rank() const { return rank_; }  // of a joined peer
  bool is_of_this_process() const { return is_own_; }
  const Status& refusal() const {
    return refusal_;
  }  // not ok: the rank cannot take part; the reason
  const std::string& who() const { return who_; }

  void note(const RecordLine::Payload& payload);  // unless earlier bytes are still to be sent
  void answer(const RecordLine::Payload& payload, double now);
  void drop();

 private:
  const ByteLine& line() const { return records_ ? records_->line() : hello_; }
  ByteLine& line() { return records_ ? records_->line() : hello_; }
  void greet();
  std::optional<Join> receive(double now);
  void flush();

  Secret secret_;
  Phase phase_ = Phase::kUnauthenticated;
  double born_ = 0;
  double deadline_ = 0;
  ByteLine hello_;
  std::optional<RecordLine> records_;
  int rank_ = -1;
  bool is_own_ = false;
  std::string who_;
  Status refusal_;
};

}  // namespace sparcl::net
