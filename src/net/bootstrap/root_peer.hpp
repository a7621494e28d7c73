#pragma once
// One connection at the root: a stranger until it has joined, which only a holder of the secret
// can.

#include <memory>
#include <optional>

#include "src/net/bootstrap/bootstrap_messages.hpp"
#include "src/net/bootstrap/record_line.hpp"

namespace sparcl::net {

class RootPeer {
 public:
  // kStranger: the handshake goes on. kJoined: it waits for the others. kLeaving: it has its
  // answer, which the network takes.
  enum class Phase { kStranger, kJoined, kLeaving, kGone };

  RootPeer(Socket socket, const Secret& secret, double now, double handshake_s);

  Phase phase() const { return phase_; }
  const Socket& socket() const { return line().socket(); }
  short events() const;  // for poll()
  double born() const { return born_; }
  // When its phase is over, whatever the other side does; in kJoined: when its rank loses patience.
  double deadline() const { return deadline_; }

  // Moves bytes. A join that came whole is handed over once, and the phase is then kJoined.
  std::optional<Join> step(double now);
  int rank() const { return rank_; }  // of a joined one
  bool is_of_this_process() const { return is_own_; }
  const Status& refusal() const {
    return refusal_;
  }  // not ok: of a rank that cannot take part, and why
  const std::string& who() const { return who_; }

  void note(const RecordLine::Payload& payload);  // unless it still has bytes to take
  void answer(const RecordLine::Payload& payload, double now);
  void drop();

 private:
  const ByteLine& line() const { return records_ ? records_->line() : hello_; }
  ByteLine& line() { return records_ ? records_->line() : hello_; }
  void greet();
  std::optional<Join> receive(double now);
  void flush();

  Secret secret_;
  Phase phase_ = Phase::kStranger;
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
