#include "src/net/bootstrap/byte_line.hpp"

#include <algorithm>

namespace sparcl::net {
namespace {

constexpr std::size_t kStepBytes = 64 * 1024;

}  // namespace

void ByteLine::expect(std::uint64_t count) {
  in_.clear();
  wanted_ = count;
}

ByteLine::Progress ByteLine::closed(const Moved& step) {
  error_ = step.error;
  socket_.close();
  return Progress::kClosed;
}

ByteLine::Progress ByteLine::read() {
  while (in_.size() < wanted_) {
    const std::size_t have = in_.size();
    in_.resize(have +
               static_cast<std::size_t>(std::min<std::uint64_t>(wanted_ - have, kStepBytes)));
    const Moved step = read_some(socket_, std::span(in_).subspan(have));
    in_.resize(have + step.bytes);
    if (step.kind == Moved::Kind::kWouldBlock) return Progress::kMore;
    if (step.kind == Moved::Kind::kClosed) return closed(step);
  }
  return Progress::kDone;
}

void ByteLine::queue(std::shared_ptr<const std::vector<std::byte>> bytes) {
  if (!bytes->empty()) out_.push_back(std::move(bytes));
}

void ByteLine::queue(std::span<const std::byte> bytes) {
  queue(std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
}

ByteLine::Progress ByteLine::write() {
  while (!out_.empty()) {
    const std::vector<std::byte>& first = *out_.front();
    const Moved step = write_some(socket_, std::span(first).subspan(sent_));
    if (step.kind == Moved::Kind::kWouldBlock) return Progress::kMore;
    if (step.kind == Moved::Kind::kClosed) return closed(step);
    sent_ += step.bytes;
    if (sent_ < first.size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
  return Progress::kDone;
}

std::string ByteLine::why_closed() const {
  return error_ == 0 ? "the connection was closed" : error_text(error_);
}

}  // namespace sparcl::net
