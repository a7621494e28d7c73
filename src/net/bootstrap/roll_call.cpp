#include "src/net/bootstrap/roll_call.hpp"

#include <fmt/format.h>

namespace sparcl::net {
namespace {

constexpr std::size_t kMaxTableBytes = std::size_t{1} << 30;
constexpr int kMaxRanges = 16;  // named in a text

std::string range_text(int first, int last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

}  // namespace

Status RollCall::admit(Join join) {
  if (nranks_ == 0) nranks_ = join.nranks;
  if (join.nranks != nranks_) {
    return Status(
        Code::kMismatch,
        fmt::format(
            "{} says that there are {} ranks, {} says {}: all ranks must give the same number",
            join.who(), join.nranks, joined_.begin()->second.who(), nranks_));
  }
  if (const Join* first = find(join.rank); first != nullptr) {
    return Status(Code::kInvalidUsage,
                  fmt::format("two processes are rank {} of {}: host {}, pid {}, and host {}, pid "
                              "{}: each must give a rank of its own",
                              join.rank, nranks_, first->host, first->pid, join.host, join.pid));
  }
  const int rank = join.rank;
  joined_.emplace(rank, std::move(join));
  return {};
}

const Join* RollCall::find(int rank) const {
  const auto found = joined_.find(rank);
  return found == joined_.end() ? nullptr : &found->second;
}

std::string RollCall::missing_numbers() const {
  std::string text;
  int ranges = 0, next = 0;        // next: the first rank not looked at
  const auto gap = [&](int end) {  // [next, end) has not come
    if (next >= end) return;
    if (++ranges <= kMaxRanges)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", range_text(next, end - 1));
  };
  for (const auto& [rank, join] : joined_) {
    gap(rank);
    next = rank + 1;
  }
  gap(nranks_);
  if (ranges > kMaxRanges) text += " and others";
  return text;
}

std::string RollCall::missing() const {
  return fmt::format("{} {} of {}", nranks_ - came() == 1 ? "rank" : "ranks", missing_numbers(),
                     nranks_);
}

Result<std::vector<std::byte>> RollCall::table() const {
  std::vector<const Join*> by_rank;
  std::size_t bytes = 0;
  for (const auto& [rank, join] : joined_) {
    by_rank.push_back(&join);
    bytes += join.blob.size() + 4;
  }
  if (bytes > kMaxTableBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the ranks' addresses take {} bytes together, more than {}", bytes,
                              kMaxTableBytes));
  }
  return encode_table(by_rank);
}

}  // namespace sparcl::net
