#pragma once
// The actions that a session's machine asks of the owner of its connection, in this order.

#include <cstdint>
#include <variant>
#include <vector>

#include "src/base/buffer.hpp"
#include "src/replication/message_link.hpp"

namespace sparcl::replication {
namespace session_action {

struct Send {
  MessageType type;
  std::vector<std::byte> content;
};
struct SendWhole {  // one message for many peers
  WholeMessage message;
};
struct SendChunk {
  ChunkHead head;
  Buffer bytes;
};
// A message of this type may be larger than kMaxMessageBytes from now on.
struct Expect {
  MessageType type;
  std::size_t max_bytes = SIZE_MAX;
  bool is_kept = true;  // false: its content is of no use
};
struct Flush {};  // the peer needs what is queued now
struct Prove {};  // the peer has proven itself: its memory counts as a proven replica's
struct Close {};  // without what is still queued

using Any = std::variant<Send, SendWhole, SendChunk, Expect, Flush, Prove, Close>;

}  // namespace session_action

using SessionActions = std::vector<session_action::Any>;

}  // namespace sparcl::replication
