#include "tools/sparcl/engine_target.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "src/base/shown_text.hpp"

namespace sparcl::tool {
namespace {

using Kind = EngineTarget::Kind;
using Words = std::vector<std::string_view>;

// The default comes first: running requests are not lost.
const Words& modes_of(Kind kind) {
  static const Words vllm{"wait", "abort", "keep"}, sglang{"retract", "abort", "in_place"};
  return kind == Kind::kVllm ? vllm : sglang;
}

Status unfit(const std::string& why) { return Status(Code::kInvalidArgument, why); }

bool is_plain(std::string_view url) {
  return std::ranges::all_of(url, [](char c) { return c > ' ' && c < '\x7f'; });
}

bool is_port(std::string_view port) {
  return !port.empty() && port.size() <= 5 &&
         std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

// http://HOST[:PORT][/PATH]
Status check_url(std::string_view url) {
  const std::size_t scheme = url.starts_with("http://")    ? 7
                             : url.starts_with("https://") ? 8
                                                           : std::string_view::npos;
  if (scheme == std::string_view::npos)
    return unfit(
        fmt::format("'{}' is no address of an engine: give http://HOST:PORT or "
                    "https://HOST:PORT",
                    shown(url)));
  const std::string_view where = url.substr(scheme, url.find('/', scheme) - scheme);
  if (where.find('@') != std::string_view::npos)
    return unfit(
        "a user or a password in an address would be seen by other users: give the key "
        "in SPARCL_ENGINE_API_KEY");
  const std::size_t bracket = where.rfind(']');
  const std::size_t colon = where.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const bool has_port = colon != std::string_view::npos;
  if (!is_plain(url) || where.substr(0, colon).empty() ||
      (has_port && !is_port(where.substr(colon + 1))))
    return unfit(fmt::format("'{}' names no host and port: give http://HOST:PORT", shown(url)));
  return {};
}

Status take_word(EngineTarget& target, std::string_view name, std::string_view value) {
  const Words& modes = modes_of(target.kind);
  if (name == "mode") {
    if (std::ranges::find(modes, value) == modes.end())
      return unfit(fmt::format("mode={}: give one of {}", shown(value), fmt::join(modes, ", ")));
    target.mode = value;
    return {};
  }
  if (name == "update" && target.kind == Kind::kVllm) {
    if (value != "reload" && value != "transfer")
      return unfit(fmt::format("update={}: give one of reload, transfer", shown(value)));
    target.update =
        value == "reload" ? EngineTarget::Update::kReload : EngineTarget::Update::kTransfer;
    return {};
  }
  return unfit(fmt::format("'{}' is nothing that can be chosen there: give mode=WORD{}",
                           shown(name), target.kind == Kind::kVllm ? " or update=WORD" : ""));
}

Status take_query(EngineTarget& target, std::string_view query) {
  while (!query.empty()) {
    const std::string_view word = query.substr(0, query.find('&'));
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      return unfit(fmt::format("'{}' has no value: give NAME=WORD", shown(word)));
    SPARCL_RETURN_IF_ERROR(take_word(target, word.substr(0, equals), word.substr(equals + 1)));
    query.remove_prefix(std::min(word.size() + 1, query.size()));
  }
  return {};
}

}  // namespace

Result<EngineTarget> EngineTarget::parse(const std::string& text) {
  EngineTarget target;
  target.text = text;
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "exec") {
    if (rest.empty()) return unfit("exec: has no command: give exec:CMD");
    target.command = rest;
    return target;
  }
  if (kind != "vllm" && kind != "sglang")
    return unfit(
        fmt::format("'{}' is told nothing: give vllm:URL, sglang:URL or exec:CMD", shown(text)));
  target.kind = kind == "vllm" ? Kind::kVllm : Kind::kSglang;
  target.mode = modes_of(target.kind).front();
  const std::size_t query = rest.find('?');
  target.url = rest.substr(0, query);
  while (target.url.ends_with('/')) target.url.pop_back();
  SPARCL_RETURN_IF_ERROR(check_url(target.url));
  if (query != std::string::npos)
    SPARCL_RETURN_IF_ERROR(take_query(target, std::string_view(rest).substr(query + 1)));
  return target;
}

}  // namespace sparcl::tool
