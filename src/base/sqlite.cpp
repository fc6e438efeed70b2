#include "base/sqlite.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tessera {
namespace {

// The header of an SQLite file.
constexpr size_t kHeaderBytes = 100;
constexpr size_t kApplicationIdAt = 68;
constexpr std::string_view kMagic("SQLite format 3\0", 16);

SqliteHandle open(const std::string& name, int flags, int& status) {
  sqlite3* handle = nullptr;
  status = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  return SqliteHandle(handle);
}

// An SQLite URI that promises that nobody writes the file, so that SQLite opens it with no locks
// and no journal.
std::string immutable_uri(const std::filesystem::path& file) {
  std::string uri = "file://";
  for (const char c : std::filesystem::absolute(file).string()) {
    const bool is_special = c == '%' || c == '?' || c == '#';
    uri += is_special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return uri + "?immutable=1";
}

}  // namespace

// By way of SQLite's own file object, not by open(): closing any descriptor of a file drops the
// POSIX locks that other connections of this process hold on it. The header is read raw, because
// the promise of immutable_uri() is not kept: a file that is just being written would look
// malformed to a query.
std::optional<uint32_t> peek_application_id(const std::filesystem::path& file) {
  int status = SQLITE_OK;
  const SqliteHandle handle =
      open(immutable_uri(file), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, status);
  sqlite3_file* bytes = nullptr;
  if (status != SQLITE_OK) return std::nullopt;
  if (sqlite3_file_control(handle.get(), "main", SQLITE_FCNTL_FILE_POINTER,
                           reinterpret_cast<void*>(&bytes)) != SQLITE_OK)
    return std::nullopt;
  if (bytes == nullptr || bytes->pMethods == nullptr) return std::nullopt;
  char header[kHeaderBytes];
  if (bytes->pMethods->xRead(bytes, header, kHeaderBytes, 0) != SQLITE_OK) return std::nullopt;
  if (std::string_view(header, kHeaderBytes).substr(0, kMagic.size()) != kMagic)
    return std::nullopt;
  uint32_t id = 0;
  for (size_t i = 0; i < 4; ++i) id = id << 8 | static_cast<uint8_t>(header[kApplicationIdAt + i]);
  return id;
}

Database::Database(const std::filesystem::path& file)
    : file_(file == kInMemory ? file : std::filesystem::absolute(file)) {
  int status = SQLITE_OK;
  handle_ = open(file_.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, status);
  if (status != SQLITE_OK) fail("cannot open");
  set_busy_timeout(5000);
}

void Database::set_busy_timeout(int ms) { sqlite3_busy_timeout(handle_.get(), ms); }

bool Database::try_execute(const std::string& sql) {
  return sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
}

void Database::execute(const std::string& sql) {
  if (!try_execute(sql)) fail("cannot use");
}

// The change of mode does not wait for other connections, as everything else does; an exclusive
// transaction does, and leaves behind a moment in which the change most likely succeeds.
bool Database::use_wal() {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (try_execute("PRAGMA journal_mode=WAL") && pragma_text("journal_mode") == "wal") return true;
    execute("BEGIN EXCLUSIVE; COMMIT");
  }
  return false;
}

bool Database::was_busy() const {
  const int code = sqlite3_errcode(handle_.get());
  return code == SQLITE_BUSY || code == SQLITE_LOCKED;
}

int64_t Database::pragma_number(std::string_view name) {
  Statement statement(*this, fmt::format("PRAGMA {}", name));
  return statement.step() ? statement.integer(0) : 0;
}

std::string Database::pragma_text(std::string_view name) {
  Statement statement(*this, fmt::format("PRAGMA {}", name));
  return statement.step() ? statement.text(0) : std::string();
}

void Database::fail(std::string_view what) const {
  const char* reason = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_.get());
  throw Error(ErrorCode::kIo, fmt::format("{} {} - {} - check the file, its folder and the disk",
                                          what, file_.string(), reason));
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* handle = nullptr;
  const int status = sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()),
                                        &handle, nullptr);
  handle_.reset(handle);
  if (status != SQLITE_OK) database.fail("cannot use");
}

Statement& Statement::bind(int index, std::string_view text) {
  // A null pointer would bind NULL, and an empty view may have one.
  const char* data = text.data() == nullptr ? "" : text.data();
  const int status =
      sqlite3_bind_text64(handle_.get(), index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (status != SQLITE_OK) database_.fail("cannot write to");
  return *this;
}

Statement& Statement::bind(int index, int64_t value) {
  if (sqlite3_bind_int64(handle_.get(), index, value) != SQLITE_OK)
    database_.fail("cannot write to");
  return *this;
}

Statement& Statement::bind(int index, std::span<const std::byte> bytes) {
  const int status =
      sqlite3_bind_blob64(handle_.get(), index, bytes.data(), bytes.size(), SQLITE_STATIC);
  if (status != SQLITE_OK) database_.fail("cannot write to");
  return *this;
}

bool Statement::step() {
  const int status = sqlite3_step(handle_.get());
  if (status != SQLITE_ROW && status != SQLITE_DONE) database_.fail("cannot use");
  return status == SQLITE_ROW;
}

// The error of the last step, which sqlite3_reset repeats, was thrown by step().
void Statement::reset() { sqlite3_reset(handle_.get()); }

void Statement::run() {
  while (step()) {
  }
  reset();
}

std::string Statement::text(int column) const {
  const unsigned char* data = sqlite3_column_text(handle_.get(), column);
  const auto size = static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column));
  return data == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(data), size);
}

std::vector<std::byte> Statement::bytes(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(handle_.get(), column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column));
  return data == nullptr ? std::vector<std::byte>() : std::vector<std::byte>(data, data + size);
}

WriteTransaction::WriteTransaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

WriteTransaction::~WriteTransaction() {
  // SQLite may have rolled back by itself (disk full); a second ROLLBACK then fails, which changes
  // nothing.
  if (is_open_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void WriteTransaction::commit() {
  database_.execute("COMMIT");
  is_open_ = false;
}

}  // namespace tessera
