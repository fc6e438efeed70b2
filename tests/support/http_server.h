#pragma once
// A small HTTP server on 127.0.0.1 for tests: one thread, one connection at a time, every answer
// scripted by the test. It can lie on purpose: cut bodies, wrong lengths, ignored ranges, trickles.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::test_support {

struct HttpRequest {
  std::string method, path;
  std::map<std::string, std::string> headers;  // names in lower case

  // First byte of "Range: bytes=N-".
  std::optional<size_t> range_start() const {
    const auto found = headers.find("range");
    if (found == headers.end()) return std::nullopt;
    return std::stoull(found->second.substr(found->second.find('=') + 1));
  }
};

struct HttpAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
  std::optional<size_t> cut_after{};  // bytes of the body after which the connection is closed
  bool is_trickle = false;            // a byte every few milliseconds, until the client goes away
};

class HttpServer {
 public:
  // `n` counts the requests from 0.
  using Handler = std::function<HttpAnswer(const HttpRequest& request, size_t n)>;

  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    const bool is_up = listener_ >= 0 && stop_ >= 0 &&
                       ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       ::listen(listener_, 16) == 0 &&
                       ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    if (!is_up) throw std::runtime_error("the test server cannot listen on the loopback");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    const uint64_t one = 1;
    if (::write(stop_, &one, sizeof(one)) == sizeof(one)) thread_.join();
    ::close(listener_);
    ::close(stop_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // By default under the address; `host` may name the loopback differently, which makes another
  // host for a client.
  std::string url(std::string_view path, std::string_view host = "127.0.0.1") const {
    return "http://" + std::string(host) + ":" + std::to_string(port_) + std::string(path);
  }

  std::vector<HttpRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static constexpr size_t kMaxRequests = 200;
  static constexpr int kTrickleMs = 5;

  // False when the server has to end.
  bool wait_for(int fd, short events, int timeout_ms) const {
    pollfd fds[2] = {{fd, events, 0}, {stop_, POLLIN, 0}};
    return ::poll(fds, 2, timeout_ms) >= 0 && (fds[1].revents & POLLIN) == 0;
  }

  void serve() {
    for (size_t n = 0; n < kMaxRequests && wait_for(listener_, POLLIN, -1); ++n) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      answer(client, n);
      ::shutdown(client, SHUT_RDWR);
      ::close(client);
    }
  }

  void answer(int client, size_t n) {
    const HttpRequest request = read_request(client);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const HttpAnswer answer = handler_(request, n);
    bool has_length = false;
    std::string head =
        "HTTP/1.1 " + std::to_string(answer.status) + " Scripted\r\nConnection: close\r\n";
    for (const auto& [name, value] : answer.headers) {
      head.append(name).append(": ").append(value).append("\r\n");
      has_length |= name == "Content-Length" || name == "Transfer-Encoding";
    }
    if (!has_length) head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
    if (!send_all(client, head + "\r\n")) return;
    const std::string_view body =
        std::string_view(answer.body).substr(0, answer.cut_after.value_or(SIZE_MAX));
    if (!answer.is_trickle) {
      send_all(client, body);
      return;
    }
    for (size_t i = 0; i < body.size(); ++i) {
      if (!send_all(client, body.substr(i, 1)) || !wait_for(-1, 0, kTrickleMs)) return;
    }
  }

  HttpRequest read_request(int client) const {
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == std::string::npos && text.size() < 65536 &&
           wait_for(client, POLLIN, 5000)) {
      const ssize_t got = ::recv(client, buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      text.append(buffer, static_cast<size_t>(got));
    }
    return parse(text);
  }

  static HttpRequest parse(const std::string& text) {
    HttpRequest request;
    std::istringstream lines(text);
    lines >> request.method >> request.path;
    std::string line;
    std::getline(lines, line);  // the version
    while (std::getline(lines, line) && line != "\r") {
      const size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
    }
    return request;
  }

  static bool send_all(int client, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  Handler handler_;
  int listener_ = -1;
  int stop_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<HttpRequest> requests_;
  std::thread thread_;
};

// Answers like a right server of one file: whole, or the asked range.
inline HttpAnswer serve_file(const HttpRequest& request, const std::string& file) {
  const size_t first = request.range_start().value_or(0);
  if (!request.range_start()) return {.body = file};
  if (first >= file.size()) return {.status = 416};
  const std::string range = "bytes " + std::to_string(first) + "-" +
                            std::to_string(file.size() - 1) + "/" + std::to_string(file.size());
  return {.status = 206, .headers = {{"Content-Range", range}}, .body = file.substr(first)};
}

}  // namespace tessera::test_support
