#pragma once
// The XML of S3's answers. A strict reader of elements and text: no document types, no CDATA and no
// processing instructions after the first, at most kMaxXmlDepth elements in each other. Anything
// else is Corrupt.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::store {

constexpr std::size_t kMaxXmlDepth = 16;

// Calls leaf(path, text) for each element without elements in it, path being the names from the
// root on: "Error/Code"; and end(path) for each other element, at its end.
using XmlVisit = std::function<Status(std::string_view path, const std::string& text)>;
Status walk_xml(std::string_view xml, const XmlVisit& leaf, const XmlVisit& end);

struct S3Error {
  std::string code, message, region, endpoint;  // "" where the answer has none
};
// Empty fields if the bytes are no <Error>.
S3Error parse_s3_error(std::string_view xml);

struct S3Object {
  std::string key;  // decoded
  std::uint64_t bytes = 0;
  std::int64_t written_s = 0;
};
struct S3Page {
  std::vector<S3Object> objects;
  std::string next;  // "": it is the last page
};
// Of ListObjectsV2 with encoding-type=url.
Result<S3Page> parse_s3_page(std::string_view xml);
// Of CreateMultipartUpload.
Result<std::string> parse_upload_id(std::string_view xml);

struct S3Uploads {
  struct Upload {
    std::string key, id;  // decoded
    std::int64_t begun_s = 0;
  };
  std::vector<Upload> uploads;
  std::string next_key, next_id;  // "": it is the last page
};
// Of ListMultipartUploads with encoding-type=url.
Result<S3Uploads> parse_s3_uploads(std::string_view xml);

// "2009-10-12T17:50:30.000Z"; "Fri, 24 May 2013 00:00:00 GMT". nullopt: it is none.
std::optional<std::int64_t> seconds_of_iso_date(std::string_view text);
std::optional<std::int64_t> seconds_of_http_date(std::string_view text);

}  // namespace sparcl::store
