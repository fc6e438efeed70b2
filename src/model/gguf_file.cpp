#include "model/gguf_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "base/error.h"

namespace tessera {
namespace {

// ggml reports why a file is malformed only through its logger, so the lines it writes while a file
// is being parsed are collected and become the error's text.
//
// That logger is the process's. Captures wait for each other, and the destructor puts the earlier
// logger back however the scope is left. ggml itself has no lock around it: no other thread may set
// it, or log through it, meanwhile.
class LogCapture {
 public:
  LogCapture() : lock_(mutex()) {
    lines().clear();
    ggml_log_get(&previous_, &previous_data_);
    ggml_log_set(&LogCapture::append, nullptr);
  }
  ~LogCapture() { ggml_log_set(previous_, previous_data_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  static std::string text() {
    std::string out = lines();
    while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
    return out.empty() ? "not a GGUF file or cut short" : out;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
  static std::string& lines() {
    static thread_local std::string instance;
    return instance;
  }
  static void append(ggml_log_level level, const char* line, void*) {
    if (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN ||
        level == GGML_LOG_LEVEL_CONT)
      lines() += line;
  }

  std::lock_guard<std::mutex> lock_;
  ggml_log_callback previous_ = nullptr;
  void* previous_data_ = nullptr;
};

constexpr uint64_t kMaxTensorElements = uint64_t{1} << 40;

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) : path_(path) {
  fd_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd_.is_open()) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kModel;
    throw Error(code, fmt::format("cannot open model {} - {} - give the path of a GGUF file",
                                  path.string(), std::strerror(errno)));
  }
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kModel,
                fmt::format("model {} is not a regular file - give the path of a GGUF file",
                            path.string()));
  }
  file_bytes_ = static_cast<uint64_t>(info.st_size);
  {
    const LogCapture capture;
    // The file that is open, even when another one has taken its name since.
    const std::string open_file = fmt::format("/proc/self/fd/{}", fd_.get());
    gguf_.reset(
        gguf_init_from_file(open_file.c_str(), gguf_init_params{.no_alloc = true, .ctx = nullptr}));
    if (gguf_ == nullptr) fail("header", LogCapture::text());
  }
  read_tensor_table();
}

void GgufFile::fail(std::string_view field, std::string_view why) const {
  throw Error(
      ErrorCode::kModel,
      fmt::format("model {}: field '{}' - {} - fetch the file again if it is damaged, or use "
                  "another model",
                  path_.string(), field, why));
}

void GgufFile::read_tensor_table() {
  const int64_t n = gguf_get_n_tensors(gguf_.get());
  const uint64_t data = gguf_get_data_offset(gguf_.get());
  for (int64_t i = 0; i < n; ++i) {
    Tensor t;
    t.name = gguf_get_tensor_name(gguf_.get(), i);
    t.type = gguf_get_tensor_type(gguf_.get(), i);
    const int64_t* ne = gguf_get_tensor_ne(gguf_.get(), i);
    uint64_t elements = 1;
    for (int d = 0; d < 4; ++d) {
      t.ne[d] = ne[d];
      if (ne[d] <= 0 || static_cast<uint64_t>(ne[d]) > kMaxTensorElements / elements)
        fail(t.name, "has an impossible shape");
      elements *= static_cast<uint64_t>(ne[d]);
    }
    t.bytes = gguf_get_tensor_size(gguf_.get(), i);
    const uint64_t offset = gguf_get_tensor_offset(gguf_.get(), i);
    if (offset > file_bytes_ || data > file_bytes_ - offset ||
        t.bytes > file_bytes_ - offset - data) {
      fail(t.name, fmt::format("lies past the end of the file ({} bytes): the file is cut short",
                               file_bytes_));
    }
    t.offset = data + offset;
    tensors_.push_back(std::move(t));
  }
}

int64_t GgufFile::find_key(std::string_view key) const {
  return gguf_find_key(gguf_.get(), std::string(key).c_str());
}

bool GgufFile::has(std::string_view key) const { return find_key(key) >= 0; }

std::optional<int64_t> GgufFile::integer_at(int64_t id, std::string_view key) const {
  const gguf_context* g = gguf_.get();
  switch (gguf_get_kv_type(g, id)) {
    case GGUF_TYPE_UINT8:
      return gguf_get_val_u8(g, id);
    case GGUF_TYPE_INT8:
      return gguf_get_val_i8(g, id);
    case GGUF_TYPE_UINT16:
      return gguf_get_val_u16(g, id);
    case GGUF_TYPE_INT16:
      return gguf_get_val_i16(g, id);
    case GGUF_TYPE_UINT32:
      return gguf_get_val_u32(g, id);
    case GGUF_TYPE_INT32:
      return gguf_get_val_i32(g, id);
    case GGUF_TYPE_INT64:
      return gguf_get_val_i64(g, id);
    case GGUF_TYPE_UINT64: {
      const uint64_t v = gguf_get_val_u64(g, id);
      return v > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(v);
    }
    case GGUF_TYPE_ARRAY:
      fail(key, "is an array; per-layer values are not supported");
    default:
      return std::nullopt;
  }
}

std::optional<int32_t> GgufFile::find_integer(std::string_view key, int64_t min,
                                              int64_t max) const {
  const int64_t id = find_key(key);
  if (id < 0) return std::nullopt;
  const std::optional<int64_t> value = integer_at(id, key);
  if (!value)
    fail(key, fmt::format("is a {}, an integer is needed",
                          gguf_type_name(gguf_get_kv_type(gguf_.get(), id))));
  if (*value < min || *value > max)
    fail(key, fmt::format("is {}, it must lie in {}..{}", *value, min, max));
  return static_cast<int32_t>(*value);
}

int32_t GgufFile::integer(std::string_view key, int64_t min, int64_t max) const {
  const std::optional<int32_t> value = find_integer(key, min, max);
  if (!value) fail(key, "is missing");
  return *value;
}

std::optional<float> GgufFile::find_real(std::string_view key) const {
  const int64_t id = find_key(key);
  if (id < 0) return std::nullopt;
  const gguf_type type = gguf_get_kv_type(gguf_.get(), id);
  if (type != GGUF_TYPE_FLOAT32 && type != GGUF_TYPE_FLOAT64) {
    fail(key, fmt::format("is a {}, a real number is needed", gguf_type_name(type)));
  }
  const double value = type == GGUF_TYPE_FLOAT32 ? gguf_get_val_f32(gguf_.get(), id)
                                                 : gguf_get_val_f64(gguf_.get(), id);
  const auto narrow = static_cast<float>(value);  // a double may be too large for it
  if (!std::isfinite(narrow)) fail(key, "is not a finite number");
  return narrow;
}

std::optional<std::string> GgufFile::find_text(std::string_view key) const {
  const int64_t id = find_key(key);
  if (id < 0) return std::nullopt;
  if (gguf_get_kv_type(gguf_.get(), id) != GGUF_TYPE_STRING) fail(key, "is not a string");
  return gguf_get_val_str(gguf_.get(), id);
}

std::string GgufFile::text(std::string_view key) const {
  std::optional<std::string> value = find_text(key);
  if (!value) fail(key, "is missing");
  return *std::move(value);
}

std::optional<size_t> GgufFile::array_length(std::string_view key) const {
  const int64_t id = find_key(key);
  if (id < 0 || gguf_get_kv_type(gguf_.get(), id) != GGUF_TYPE_ARRAY) return std::nullopt;
  return gguf_get_arr_n(gguf_.get(), id);
}

std::optional<std::vector<int64_t>> GgufFile::find_integers(std::string_view key) const {
  const int64_t id = find_key(key);
  if (id < 0 || gguf_get_kv_type(gguf_.get(), id) != GGUF_TYPE_ARRAY) return std::nullopt;
  const size_t n = gguf_get_arr_n(gguf_.get(), id);
  const gguf_type type = gguf_get_arr_type(gguf_.get(), id);
  if (type == GGUF_TYPE_STRING || type == GGUF_TYPE_ARRAY) fail(key, "is not an array of numbers");
  const void* data = gguf_get_arr_data(gguf_.get(), id);
  std::vector<int64_t> out(n);
  for (size_t i = 0; i < n; ++i) {
    switch (type) {
      case GGUF_TYPE_BOOL:
      case GGUF_TYPE_UINT8:
        out[i] = static_cast<const uint8_t*>(data)[i];
        break;
      case GGUF_TYPE_UINT32:
        out[i] = static_cast<const uint32_t*>(data)[i];
        break;
      case GGUF_TYPE_INT32:
        out[i] = static_cast<const int32_t*>(data)[i];
        break;
      default:
        fail(key,
             fmt::format("is an array of {}, which is not supported here", gguf_type_name(type)));
    }
  }
  return out;
}

const GgufFile::Tensor* GgufFile::find_tensor(std::string_view name) const {
  for (const Tensor& t : tensors_) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

void GgufFile::read(const Tensor& tensor, uint64_t begin, std::span<std::byte> out) const {
  CHECK(begin <= tensor.bytes && out.size() <= tensor.bytes - begin);
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(fd_.get(), out.data() + done, out.size() - done,
                              static_cast<off_t>(tensor.offset + begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail(tensor.name,
           n == 0 ? "the file became shorter while it was read" : std::strerror(errno));
    done += static_cast<size_t>(n);
  }
}

}  // namespace tessera
