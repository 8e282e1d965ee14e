#!/usr/bin/env bash
# From raw text to a first checkpoint. Settings are environment variables, each with a default:
#   DATASET=corpus.jsonl NPROC=8 ./examples/pretrain.sh --bf16
set -euo pipefail
cd "$(dirname "$0")/.."

DATASET=${DATASET:-python/tokenmill/data/sample.jsonl}
TOKENIZER=${TOKENIZER:-outputs/tokenizer}
OUTPUT=${OUTPUT:-outputs/pretrain}
MODEL_CONFIG=${MODEL_CONFIG:-examples/model_config_tiny.json}
VOCAB_SIZE=${VOCAB_SIZE:-1024}
# What starts the ranks; "python" runs one process.
LAUNCH=${LAUNCH:-torchrun --nproc_per_node=${NPROC:-2}}
TOKENMILL=${TOKENMILL:-tokenmill}

eval "$($TOKENMILL config env)"
if [ ! -e "$TOKENIZER" ]; then
  # shellcheck disable=SC2086 # several files in DATASET are several arguments
  $TOKENMILL train $DATASET --vocab-size "$VOCAB_SIZE" --special-token '<|endoftext|>' --output "$TOKENIZER"
fi

# shellcheck disable=SC2086
exec $LAUNCH examples/pretrain.py \
  --mode pretrain \
  --dataset $DATASET \
  --tokenizer_path "$TOKENIZER" \
  --model_config "$MODEL_CONFIG" \
  --output_dir "$OUTPUT" \
  --num_proc "${DATASET_NUM_PROC:-1}" \
  --packing "$@"
