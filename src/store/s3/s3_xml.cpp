#include "src/store/s3/s3_xml.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <utility>

namespace sparcl::store {
namespace {

constexpr std::string_view kXmlSpaces = " \t\r\n";

Status no_xml(const char* why) {
  return Status(Code::kCorrupt, std::string("the answer is not the XML of S3: ") + why);
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | (code >> 6));
  } else if (code < 0x10000) {
    byte(0xE0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3F));
  } else {
    byte(0xF0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3F));
    byte(0x80 | ((code >> 6) & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

// name: between & and ;. False: it is none.
bool append_entity(std::string& text, std::string_view name) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [own, character] : kNamed) {
    if (name == own) return text += character, true;
  }
  if (name.size() < 2 || name.front() != '#') return false;
  const bool is_hex = name[1] == 'x';
  const std::string_view digits = name.substr(is_hex ? 2 : 1);
  std::uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
  const bool is_character = code > 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  if (error != std::errc() || end != digits.data() + digits.size() || !is_character) return false;
  append_utf8(text, code);
  return true;
}

class XmlWalk {
 public:
  XmlWalk(std::string_view xml, const XmlVisit& leaf, const XmlVisit& end)
      : rest_(xml), leaf_(leaf), end_(end) {}

  Status run() {
    skip_spaces();
    if (rest_.starts_with("<?xml") && !skip_past("?>")) return no_xml("it is cut");
    for (bool is_over = false; !is_over;) {
      SPARCL_RETURN_IF_ERROR(take_text());
      if (rest_.starts_with("<!--")) {
        if (!skip_past("-->")) return no_xml("it is cut");
      } else if (rest_.starts_with("</")) {
        SPARCL_RETURN_IF_ERROR(close(is_over));
      } else {
        SPARCL_RETURN_IF_ERROR(open(is_over));
      }
    }
    skip_spaces();
    return rest_.empty() ? Status() : no_xml("something follows its end");
  }

 private:
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kXmlSpaces), rest_.size()));
  }
  bool skip_past(std::string_view mark) {
    const std::size_t at = rest_.find(mark);
    if (at == std::string_view::npos) return false;
    rest_.remove_prefix(at + mark.size());
    return true;
  }
  Status take_text() {
    const std::size_t end = rest_.find('<');
    if (end == std::string_view::npos) return no_xml("it is cut");
    for (std::string_view raw = rest_.substr(0, end); !raw.empty();) {
      const std::size_t mark = raw.find('&');
      text_ += raw.substr(0, mark);
      if (mark == std::string_view::npos) break;
      const std::size_t stop = raw.find(';', mark);
      if (stop == std::string_view::npos || stop - mark > 12 ||
          !append_entity(text_, raw.substr(mark + 1, stop - mark - 1)))
        return no_xml("it has an unknown entity");
      raw.remove_prefix(stop + 1);
    }
    rest_.remove_prefix(end);
    return {};
  }
  Status open(bool& is_over) {
    const std::size_t end = rest_.find('>');
    if (end == std::string_view::npos) return no_xml("it is cut");
    std::string_view tag = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    const bool is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    const std::string_view name = tag.substr(0, tag.find_first_of(kXmlSpaces));
    if (name.empty() || name.find_first_of("!?<&/\"'") != std::string_view::npos)
      return no_xml("it has a document type, CDATA or a bad name");
    if (ends_.size() == kMaxXmlDepth) return no_xml("too many elements are in each other");
    ends_.push_back(path_.size());
    path_ += (path_.empty() ? "" : "/") + std::string(name);
    text_.clear();
    is_leaf_ = true;
    return is_empty ? leave(is_over) : Status();
  }
  Status close(bool& is_over) {
    const std::size_t end = rest_.find('>');
    if (end == std::string_view::npos || ends_.empty()) return no_xml("it is cut");
    std::string_view name = rest_.substr(2, end - 2);
    name = name.substr(0, name.find_first_of(kXmlSpaces));
    const std::size_t begin = ends_.back() == 0 ? 0 : ends_.back() + 1;
    if (name != std::string_view(path_).substr(begin)) return no_xml("its elements do not nest");
    rest_.remove_prefix(end + 1);
    return leave(is_over);
  }
  Status leave(bool& is_over) {
    SPARCL_RETURN_IF_ERROR(is_leaf_ ? leaf_(path_, text_) : end_(path_, text_));
    is_leaf_ = false;
    text_.clear();
    path_.resize(ends_.back());
    ends_.pop_back();
    is_over = ends_.empty();
    return {};
  }

  std::string_view rest_;
  const XmlVisit& leaf_;
  const XmlVisit& end_;
  std::string path_, text_;
  std::vector<std::size_t> ends_;  // of the path before each open element
  bool is_leaf_ = false;
};

Status ignore_element(std::string_view, const std::string&) { return {}; }

// Of form encoding. False: a '%' has no two digits.
bool decode_form(const std::string& text, std::string& decoded) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const char* const digits = text.data() + i + 1;
    if (text.size() - i < 3 || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
      return false;
    decoded += static_cast<char>(value);
    i += 2;
  }
  return true;
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<std::int64_t> seconds_of(std::array<int, 6> field) {
  using namespace std::chrono;
  const year_month_day date{year(field[0]), month(static_cast<unsigned>(field[1])),
                            day(static_cast<unsigned>(field[2]))};
  const bool is_time = field[3] >= 0 && field[3] < 24 && field[4] >= 0 && field[4] < 60 &&
                       field[5] >= 0 && field[5] <= 60;
  if (!date.ok() || !is_time) return std::nullopt;
  const std::int64_t days = sys_days(date).time_since_epoch().count();
  return ((days * 24 + field[3]) * 60 + field[4]) * 60 + field[5];
}

}  // namespace

Status walk_xml(std::string_view xml, const XmlVisit& leaf, const XmlVisit& end) {
  return XmlWalk(xml, leaf, end).run();
}

S3Error parse_s3_error(std::string_view xml) {
  S3Error error;
  const Status walked = walk_xml(
      xml,
      [&](std::string_view path, const std::string& text) {
        if (path == "Error/Code") error.code = text;
        if (path == "Error/Message") error.message = text;
        if (path == "Error/Region") error.region = text;
        if (path == "Error/Endpoint") error.endpoint = text;
        return Status();
      },
      ignore_element);
  return walked.ok() ? error : S3Error();
}

Result<S3Page> parse_s3_page(std::string_view xml) {
  S3Page page;
  S3Object object;
  bool is_cut = false, has_list = false;
  const auto leaf = [&](std::string_view path, const std::string& text) -> Status {
    constexpr std::string_view kRoot = "ListBucketResult/", kObject = "ListBucketResult/Contents/";
    if (!path.starts_with(kRoot)) return path == "ListBucketResult" ? Status() : no_xml("no list");
    has_list = true;
    const std::string_view name = path.substr(kRoot.size());
    if (name == "IsTruncated") is_cut = text == "true";
    if (name == "NextContinuationToken") page.next = text;
    if (!path.starts_with(kObject)) return {};
    const std::string_view field = path.substr(kObject.size());
    if (field == "Key" && !decode_form(text, object.key)) return no_xml("a key is badly encoded");
    if (field == "Size" && !parse_number(text, object.bytes)) return no_xml("a size is no number");
    if (field == "LastModified") {
      const auto time = seconds_of_iso_date(text);
      if (!time) return no_xml("a date is none");
      object.written_s = *time;
    }
    return {};
  };
  const auto end = [&](std::string_view path, const std::string&) -> Status {
    if (path == "ListBucketResult") has_list = true;
    if (path != "ListBucketResult/Contents") return {};
    if (object.key.empty()) return no_xml("an object has no key");
    if (object.written_s == 0) return no_xml("an object has no date");  // ages decide on removal
    page.objects.push_back(std::move(object));
    object = {};
    return {};
  };
  SPARCL_RETURN_IF_ERROR(walk_xml(xml, leaf, end));
  if (!has_list) return no_xml("no list");
  if (!is_cut) page.next.clear();
  if (is_cut && page.next.empty()) return no_xml("a list that goes on has no token");
  return page;
}

Result<std::string> parse_upload_id(std::string_view xml) {
  std::string id;
  SPARCL_RETURN_IF_ERROR(walk_xml(
      xml,
      [&](std::string_view path, const std::string& text) {
        if (path == "InitiateMultipartUploadResult/UploadId") id = text;
        return Status();
      },
      ignore_element));
  if (id.empty()) return no_xml("no upload");
  return id;
}

Result<S3Uploads> parse_s3_uploads(std::string_view xml) {
  constexpr std::string_view kRoot = "ListMultipartUploadsResult/",
                             kUpload = "ListMultipartUploadsResult/Upload/";
  S3Uploads page;
  S3Uploads::Upload upload;
  bool is_cut = false;
  const auto leaf = [&](std::string_view path, const std::string& text) -> Status {
    if (!path.starts_with(kRoot))
      return path == "ListMultipartUploadsResult" ? Status() : no_xml("no list of uploads");
    const std::string_view name = path.substr(kRoot.size());
    if (name == "IsTruncated") is_cut = text == "true";
    if (name == "NextUploadIdMarker") page.next_id = text;
    if (name == "NextKeyMarker" && !decode_form(text, page.next_key))
      return no_xml("a key is badly encoded");
    if (!path.starts_with(kUpload)) return {};
    const std::string_view field = path.substr(kUpload.size());
    if (field == "Key" && !decode_form(text, upload.key)) return no_xml("a key is badly encoded");
    if (field == "UploadId") upload.id = text;
    if (field == "Initiated") upload.begun_s = seconds_of_iso_date(text).value_or(0);
    return {};
  };
  const auto end = [&](std::string_view path, const std::string&) -> Status {
    if (path == "ListMultipartUploadsResult/Upload") {
      if (upload.key.empty() || upload.id.empty() || upload.begun_s == 0)
        return no_xml("an upload has no key, name or date");
      page.uploads.push_back(std::exchange(upload, {}));
    }
    return path.starts_with("ListMultipartUploadsResult") ? Status() : no_xml("no list of uploads");
  };
  SPARCL_RETURN_IF_ERROR(walk_xml(xml, leaf, end));
  if (!is_cut) page.next_key.clear();
  if (is_cut && page.next_key.empty()) return no_xml("a list that goes on has no marker");
  return page;
}

std::optional<std::int64_t> seconds_of_iso_date(std::string_view text) {
  constexpr std::array<std::size_t, 6> kAt{0, 5, 8, 11, 14, 17}, kDigits{4, 2, 2, 2, 2, 2};
  std::array<int, 6> field{};
  if (text.size() < 20 || !text.ends_with('Z')) return std::nullopt;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (!parse_number(text.substr(kAt[i], kDigits[i]), field[i])) return std::nullopt;
  }
  return seconds_of(field);
}

std::optional<std::int64_t> seconds_of_http_date(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() != 29 || !text.ends_with(" GMT")) return std::nullopt;
  const std::size_t month = kMonths.find(text.substr(8, 3));
  if (month == std::string_view::npos || month % 3 != 0) return std::nullopt;
  std::array<int, 6> field{0, static_cast<int>(month / 3) + 1, 0, 0, 0, 0};
  const bool is_read =
      parse_number(text.substr(5, 2), field[2]) && parse_number(text.substr(12, 4), field[0]) &&
      parse_number(text.substr(17, 2), field[3]) && parse_number(text.substr(20, 2), field[4]) &&
      parse_number(text.substr(23, 2), field[5]);
  return is_read ? seconds_of(field) : std::nullopt;
}

}  // namespace sparcl::store
