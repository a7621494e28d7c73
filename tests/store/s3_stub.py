#!/usr/bin/env python3
"""A server of S3 for tests: objects in memory, checked signatures, and faults that are asked for.

Prints its port, and serves at 127.0.0.1 until it is killed. Buckets whose names begin with "ignores" ignore If-None-Match; "missing" does not exist; all others do.
/_control (unsigned): PUT a JSON list of faults, GET the requests since then as a JSON list. A fault is {"kind", "method", "key", "query"
(parts of each), "skip", "count", and what the kind needs}:
  status   answers with "status" and "code" instead     lost_status   the same, and the request has its effect
  reset    closes the connection instead                lost          the same, and the request has its effect
  cut      sends half of the body                       short         sends half of the body, with its length
  range    names another range                          whole         ignores Range
  slow     waits "seconds" before                       stale         a read finds nothing
  error200 answers 200 with <Error> of "code"           no_length     sends no Content-Length
  endless  lists other keys without an end, with new tokens, or always with "token"
"""
import argparse, email.utils, hashlib, hmac, http.client, http.server, itertools, json, socket, ssl, struct, sys, threading, time, urllib.parse, xml.sax.saxutils
from datetime import datetime, timezone

SECRETS = {"test-key": "test/secret+key", "temporary-key": "test/secret+key"}
TOKEN = "a/session+token=="
PAGE = 3  # keys in a page of a list

lock = threading.Lock()
objects, uploads, faults, requests = {}, {}, [], []
upload_numbers = itertools.count()


class Refusal(Exception):  # status, code, message
    pass


def quote(text, safe="-._~"):
    return urllib.parse.quote(text, safe=safe)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    log_message = lambda *_: None

    def send(self, status, body=b"", headers=(), length=None):
        head = f"HTTP/1.1 {status} {http.client.responses.get(status, '')}\r\nDate: {email.utils.formatdate(usegmt=True)}\r\n"
        for name, value in headers:
            head += f"{name}: {value}\r\n"
        if not self.hurts("no_length") and status != 204:
            head += f"Content-Length: {len(body) if length is None else length}\r\n"
        else:
            self.close_connection = True
            head += "Connection: close\r\n"
        if self.hurts("cut"):
            body, self.close_connection = body[: len(body) // 2], True
        self.wfile.write(head.encode() + b"\r\n" + (b"" if self.command == "HEAD" else body))

    def refuse(self, status, code, message=""):
        text = f"<Error><Code>{code}</Code><Message>{xml.sax.saxutils.escape(message)}</Message></Error>"
        headers = [("x-amz-bucket-region", "eu-north-1")] if status in (301, 400) else []
        self.send(status, b'<?xml version="1.0" encoding="UTF-8"?>\n' + text.encode(), headers)

    def reset(self):
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.wfile.write = lambda *_: None

    def hurts(self, kind):
        return self.fault is not None and self.fault["kind"] == kind

    def find_fault(self):
        for fault in faults:
            parts = (fault.get("method", ""), self.command), (fault.get("key", ""), self.key), (fault.get("query", ""), self.raw_query)
            if not all(part in whole for part, whole in parts) or fault.get("count", 1) == 0:
                continue
            if fault.get("skip", 0) > 0:
                fault["skip"] -= 1
                continue
            fault["count"] = fault.get("count", 1) - 1
            return fault
        return None

    # Raises unless the request is signed with a known key, as AWS Signature Version 4 says.
    def check_signature(self):
        text = self.headers.get("Authorization", "")
        if not text.startswith("AWS4-HMAC-SHA256 "):
            raise Refusal(403, "AccessDenied", "Access Denied")
        fields = dict(part.strip().split("=", 1) for part in text[17:].split(","))
        key_id, *within = fields["Credential"].split("/")
        if key_id == "expired-key":
            raise Refusal(400, "ExpiredToken", "The provided token has expired.")
        if key_id not in SECRETS:
            raise Refusal(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        if (key_id == "temporary-key") != (self.headers.get("x-amz-security-token") == TOKEN):
            raise Refusal(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
        if within[1] != "us-east-1":
            raise Refusal(400, "AuthorizationHeaderMalformed", "the region is wrong")
        stamp = self.headers["x-amz-date"]
        then = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
        if abs(then - time.time()) > 900 or self.hurts("skewed"):
            raise Refusal(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
        names = fields["SignedHeaders"].split(";")
        signed = {name.lower() for name in self.headers if name.lower().startswith(("x-amz-", "host", "if-", "range"))}
        if names != sorted(names) or not signed <= set(names):
            raise Refusal(403, "AccessDenied", "There were headers present in the request which were not signed")
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(self.body).hexdigest():
            raise Refusal(400, "XAmzContentSHA256Mismatch", "The body is not what was signed.")
        query = sorted((quote(name), quote(value)) for name, value in self.query)
        canonical = "\n".join(
            [self.command, quote(urllib.parse.unquote(self.raw_path), "-._~/"), "&".join(f"{name}={value}" for name, value in query)]
            + [f"{name}:{' '.join(self.headers[name].split())}" for name in names]
            + ["", ";".join(names), self.headers["x-amz-content-sha256"]])
        to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join(within), hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + SECRETS[key_id]).encode()
        for part in [*within, to_sign]:
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        if key.hex() != fields["Signature"] or within[0] != stamp[:8]:
            raise Refusal(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")

    def serve(self):
        self.fault = None
        self.raw_path, _, self.raw_query = self.path.partition("?")
        length = int(self.headers.get("Content-Length", 0))
        self.body = self.rfile.read(length)
        if len(self.body) < length:  # a client that was killed
            self.close_connection = True
            return
        if self.raw_path == "/_control":
            return self.control()
        self.query = urllib.parse.parse_qsl(self.raw_query, keep_blank_values=True)
        self.named = dict(self.query)
        self.bucket, _, self.key = urllib.parse.unquote(self.raw_path).lstrip("/").partition("/")
        with lock:
            requests.append(f"{self.command} {self.key}" + (f"?{self.raw_query}" if self.raw_query else ""))
            self.fault = self.find_fault()
        if self.hurts("slow"):
            time.sleep(self.fault["seconds"])
        if self.hurts("reset"):
            return self.reset()
        if self.hurts("status"):
            return self.refuse(self.fault["status"], self.fault["code"], "as the test wants it")
        try:
            self.check_signature()
            if self.bucket == "missing":
                raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist")
            with lock:
                answer = self.act()
        except Refusal as refusal:
            return self.refuse(*refusal.args)
        if self.hurts("lost"):
            return self.reset()
        if self.hurts("lost_status"):
            return self.refuse(self.fault["status"], self.fault["code"], "as the test wants it")
        self.send(*answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def control(self):
        with lock:
            if self.command == "PUT":
                faults[:] = json.loads(self.body)
                requests.clear()
            return self.send(200, json.dumps(requests).encode())

    def check_condition(self):
        if self.headers.get("If-None-Match") == "*" and not self.bucket.startswith("ignores") and (self.bucket, self.key) in objects:
            raise Refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")

    def put(self, body, meta):
        self.check_condition()
        objects[self.bucket, self.key] = (body, time.time(), meta)

    def meta(self):
        return [(name.lower(), value) for name, value in self.headers.items() if name.lower().startswith("x-amz-meta-")]

    def act(self):
        upload = self.named.get("uploadId")
        if upload is not None and upload not in uploads:
            raise Refusal(404, "NoSuchUpload", "The specified upload does not exist.")
        if self.command == "POST" and "uploads" in self.named:
            upload = f"upload {next(upload_numbers):05d}+"
            uploads[upload] = (self.meta(), {}, self.bucket, self.key, time.time())
            return 200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode()
        if self.command == "PUT" and upload is not None:
            tag = '"' + hashlib.md5(self.body).hexdigest() + '"'
            uploads[upload][1][int(self.named["partNumber"])] = (self.body, tag)
            return 200, b"", [("ETag", tag)]
        if self.command == "POST":
            return self.complete(upload)
        if self.command == "DELETE":
            uploads.pop(upload) if upload else objects.pop((self.bucket, self.key), None)
            return 204, b""
        if self.command == "PUT":
            self.put(self.body, self.meta())
            return 200, b"", [("ETag", '"x"')]
        if "uploads" in self.named:
            return self.list_uploads()
        return self.list() if self.key == "" else self.get()

    def complete(self, upload):
        if self.hurts("error200"):
            return 200, f"\n \n<Error><Code>{self.fault['code']}</Code><Message>late</Message></Error>".encode()
        meta, parts, *_ = uploads[upload]
        wanted = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{parts[n][1]}</ETag></Part>" for n in sorted(parts))
        if self.body.decode() != f"<CompleteMultipartUpload>{wanted}</CompleteMultipartUpload>":
            raise Refusal(400, "InvalidPart", "One or more of the specified parts could not be found.")
        self.put(b"".join(parts[n][0] for n in sorted(parts)), meta)
        del uploads[upload]
        return 200, b" \n<CompleteMultipartUploadResult><ETag>&quot;y&quot;</ETag></CompleteMultipartUploadResult>"

    def get(self):
        found = objects.get((self.bucket, self.key))
        if found is None or self.hurts("stale"):
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
        body, written, meta = found
        headers = [("Last-Modified", email.utils.formatdate(written, usegmt=True)), *meta]
        if self.hurts("short"):
            body = body[: len(body) // 2]
        wanted = self.headers.get("Range", "")
        if not wanted.startswith("bytes=") or self.hurts("whole"):
            return 200, body, headers
        first, last = wanted[6:].split("-")
        first, last = int(first), min(int(last or len(body)), len(body) - 1)
        if first > last:
            return 416, b"", [("Content-Range", f"bytes */{len(body)}")]
        shift = 1 if self.hurts("range") else 0
        return 206, body[first : last + 1], [*headers, ("Content-Range", f"bytes {first + shift}-{last + shift}/{len(body) + shift}")]

    def list(self):
        prefix, after = self.named.get("prefix", ""), self.named.get("continuation-token", "")
        if self.hurts("endless"):
            token = self.fault.get("token", str(int(after or 0) + 1))
            date, name = "2026-01-01T00:00:00.000Z", f"{prefix}{int(after or 0):020d}"
            text = f"<Contents><Key>{name}</Key><LastModified>{date}</LastModified><Size>1</Size></Contents>"
            text += f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            return 200, f"<ListBucketResult>{text}</ListBucketResult>".encode()
        keys = sorted(key for bucket, key in objects if bucket == self.bucket and key.startswith(prefix) and key > after)
        text = "<ListBucketResult>"
        for key in keys[:PAGE]:
            body, written, _ = objects[self.bucket, key]
            date = datetime.fromtimestamp(written, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            text += f"<Contents><Key>{urllib.parse.quote_plus(key, '/')}</Key><LastModified>{date}</LastModified><Size>{len(body)}</Size></Contents>"
        is_cut = len(keys) > PAGE
        text += f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>"
        if is_cut:
            text += f"<NextContinuationToken>{xml.sax.saxutils.escape(keys[PAGE - 1])}</NextContinuationToken>"
        return 200, (text + "</ListBucketResult>").encode()


    def list_uploads(self):
        prefix, after = self.named.get("prefix", ""), (self.named.get("key-marker", ""), self.named.get("upload-id-marker", ""))
        all = sorted((key, upload, begun) for upload, (_, _, bucket, key, begun) in uploads.items() if bucket == self.bucket and key.startswith(prefix))
        all = [each for each in all if each[:2] > after]
        text = "<ListMultipartUploadsResult>"
        for key, upload, begun in all[:PAGE]:
            date = datetime.fromtimestamp(begun, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            text += f"<Upload><Key>{urllib.parse.quote_plus(key, '/')}</Key><UploadId>{upload}</UploadId><Initiated>{date}</Initiated></Upload>"
        if len(all) > PAGE:
            key, upload, _ = all[PAGE - 1]
            text += f"<NextKeyMarker>{urllib.parse.quote_plus(key, '/')}</NextKeyMarker><NextUploadIdMarker>{upload}</NextUploadIdMarker>"
        text += f"<IsTruncated>{str(len(all) > PAGE).lower()}</IsTruncated>"
        return 200, (text + "</ListMultipartUploadsResult>").encode()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    handle_error = lambda *_: None  # clients that are killed


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("certificates", nargs="?", help="a folder with tls.crt and tls.key, for https")
certificates = parser.parse_args().certificates
server = Server(("127.0.0.1", 0), Handler)
if certificates:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates + "/tls.crt", certificates + "/tls.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
sys.stdout.write(f"{server.server_address[1]}\n")
sys.stdout.flush()
server.serve_forever()
