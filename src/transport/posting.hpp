#pragma once
// What every body does when an operation is posted.

#include <memory>
#include <utility>

#include "src/transport/transport.hpp"

namespace sparcl::transport {

template <class OwnOperation>
std::shared_ptr<OwnOperation> make_operation(Operation::Kind kind, int peer, Channel channel,
                                             Buffer buffer) {
  auto operation = std::make_shared<OwnOperation>();
  operation->kind = kind;
  operation->peer = peer;
  operation->channel = channel;
  operation->buffer = std::move(buffer);
  if (kind == Operation::Kind::kSend) operation->bytes = operation->buffer.size();
  return operation;
}

// An error for what `body` cannot move: to or from no rank of its own, memory that it does not
// take.
Status check_posted(const Operation& operation, const Transport& body);

// The operation is over before it began, where `error` is one. Returns whether it is.
bool refused(Operation& operation, Status error);

}  // namespace sparcl::transport
