#include "bench/llama_peer.h"

#include <fmt/format.h>
#include <llama.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace tessera {

struct LlamaPeer::State {
  llama_model* model = nullptr;
  llama_context* context = nullptr;
  int32_t n_past = 0;
  ~State() {
    llama_free(context);
    llama_model_free(model);
  }
};

LlamaPeer::LlamaPeer(const std::filesystem::path& gguf, bool repack, int32_t n_threads,
                     int32_t micro_batch, int32_t n_ctx)
    : state_(std::make_unique<State>()) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params model = llama_model_default_params();
  model.use_extra_bufts = repack;
  model.n_gpu_layers = 0;
  state_->model = llama_model_load_from_file(gguf.c_str(), model);
  if (state_->model == nullptr)
    throw Error(ErrorCode::kModel, fmt::format("libllama cannot load {}", gguf.string()));
  llama_context_params context = llama_context_default_params();
  context.n_ctx = static_cast<uint32_t>(
      n_ctx > 0 ? n_ctx : std::min(8192, llama_model_n_ctx_train(state_->model)));
  context.n_batch = context.n_ctx;
  context.n_ubatch = static_cast<uint32_t>(micro_batch);
  context.n_threads = n_threads;
  context.n_threads_batch = n_threads;
  context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  state_->context = llama_init_from_model(state_->model, context);
  if (state_->context == nullptr)
    throw Error(ErrorCode::kIo, "libllama cannot make a context - is there memory for it?");
}

LlamaPeer::~LlamaPeer() = default;

int32_t LlamaPeer::n_vocab() const {
  return llama_vocab_n_tokens(llama_model_get_vocab(state_->model));
}

std::vector<float> LlamaPeer::run(std::span<const int32_t> ids, bool all) {
  llama_batch batch = llama_batch_init(static_cast<int32_t>(ids.size()), 0, 1);
  batch.n_tokens = static_cast<int32_t>(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    batch.token[i] = ids[i];
    batch.pos[i] = state_->n_past + static_cast<int32_t>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = static_cast<int8_t>(all || i + 1 == ids.size());
  }
  const int failure = llama_decode(state_->context, batch);
  if (failure != 0) {
    llama_batch_free(batch);
    throw Error(ErrorCode::kIo, fmt::format("libllama cannot decode: status {}", failure));
  }
  state_->n_past += batch.n_tokens;
  std::vector<float> out;
  for (int32_t i = all ? 0 : batch.n_tokens - 1; i < batch.n_tokens; ++i) {
    const float* row = llama_get_logits_ith(state_->context, i);
    out.insert(out.end(), row, row + n_vocab());
  }
  llama_batch_free(batch);
  return out;
}

void LlamaPeer::clear() {
  llama_memory_clear(llama_get_memory(state_->context), false);  // zeroing it would be timed
  state_->n_past = 0;
}

std::vector<float> LlamaPeer::all_logits(std::span<const int32_t> ids) {
  clear();
  return run(ids, true);
}

std::vector<float> LlamaPeer::last_logits(std::span<const int32_t> ids) {
  clear();
  return run(ids, false);
}

void LlamaPeer::truncate(int32_t position) {
  CHECK(llama_memory_seq_rm(llama_get_memory(state_->context), 0, position, -1));
  state_->n_past = position;
}

std::vector<float> LlamaPeer::decode(int32_t token) { return run({&token, 1}, false); }

}  // namespace tessera
